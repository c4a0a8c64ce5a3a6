"""Records of the flows → Answers: the JSON object, the exit code, the text."""
