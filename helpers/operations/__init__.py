"""The operations, one file a kernel of the same name: validate, choose the launch, launch."""
