"""Programs that show kvgpu at work; nothing here is installed. See the folders' READMEs."""
