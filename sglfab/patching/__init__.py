"""Debug patches of an installed SGLang. Pure: source text in, source text out."""
