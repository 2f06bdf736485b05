"""The verifier of a model folder for ONNX Runtime, by way of Hugging Face's M2M100."""

from __future__ import annotations

import warnings
from pathlib import Path
from tempfile import TemporaryDirectory

from onnxruntime import SessionOptions
from onnxruntime.quantization import quantize_dynamic
from optimum.exporters.onnx import onnx_export_from_model
from optimum.onnxruntime import ORTModelForSeq2SeqLM
from optimum.utils.logging import set_verbosity_error
from transformers import M2M100ForConditionalGeneration


def to_onnx(model: M2M100ForConditionalGeneration, threads: int, *, int8: bool) -> ORTModelForSeq2SeqLM:
    """Returns a model that Hugging Face's ``generate`` searches with and ONNX Runtime computes.

    :param int8: products of weights in int8, each row scaled by its own values ("dynamic quantization")
    """
    set_verbosity_error()
    options = SessionOptions()
    options.intra_op_num_threads = threads
    with TemporaryDirectory() as place:
        folder = Path(place)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of shapes that the trace takes for constants
            task = "text2text-generation-with-past"
            onnx_export_from_model(model=model, output=folder, task=task, do_validation=False)
        for path in folder.glob("*.onnx") if int8 else ():
            quantize_dynamic(path, path)
        found = ORTModelForSeq2SeqLM.from_pretrained(folder, session_options=options, use_merged=False)
    found.generation_config = model.generation_config
    return found
