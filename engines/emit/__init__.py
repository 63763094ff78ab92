"""Writers of a network: ONNX, Caffe deploy files, and JSON for programs on the board."""
