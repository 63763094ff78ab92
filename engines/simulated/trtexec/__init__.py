"""The twin's trtexec: obeys the options of its TensorRT's version, and prints the texts of that version."""
