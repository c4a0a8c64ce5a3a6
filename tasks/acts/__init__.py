"""What a verb does on one host: call a flow, give an Answer. One module a noun, so that a task imports only its own."""
