"""`make test` runs what needs NumPy alone. `make test-python` sets RAPT_TEST_ALL: then a library that is missing is an error."""

import os

NEEDS = {
    "test_torch.py": "torch",
    "test_torch_graphs.py": "torch",
    "test_torch_inputs.py": "torch",
    "test_cuda.py": "torch",
    "test_cuda_others.py": "torch",
    "test_modules.py": "torch",
    "test_flex.py": "torch",
    "test_transformers.py": "transformers",
    "test_jax.py": "jax",
    "test_onnx.py": "onnx",
    "test_examples.py": "torch",
}

collect_ignore = [] if os.environ.get("RAPT_TEST_ALL") else list(NEEDS)
