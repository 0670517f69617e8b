"""Where steps run: in process."""
