"""How the stand-in behaves: the script, the start-up, the children, the HTTP side."""
