"""One module per stage: build the prompt, ask the backbone, read the reply."""
