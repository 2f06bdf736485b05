"""Marian's transformers: the options that they are described by, and what their weights are called."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from reprlib import repr as shortened
from typing import Final, final

import numpy as np

from specmt.engine.weights import Rounded, Weight
from specmt.errors import ModelError
from specmt.models.config import VerifierConfig
from specmt.models.interop.checkpoint import Checkpoint, parse_yaml
from specmt.models.interop.foreign import OUTPUT_BIAS, OUTPUT_TABLE, SOURCE_TABLE, TARGET_TABLE, Options
from specmt.models.parameters import verifier_shapes
from specmt.options import AlignmentHeads
from specmt.text.printable import printable

_CONFIG: Final = "special:model.yml"
_BIAS: Final = "decoder_ff_logit_out_b"
_OUTPUTS: Final = ("decoder_ff_logit_out_Wt", "decoder_ff_logit_out_W")
_TABLE: Final = "Wemb"
_POSITIONS: Final = 512
"""The longest source or target; sinusoids reach as far as one likes."""

_EPSILON: Final = 1e-6
"""What Marian adds to variances in norms."""

_NEEDED: Final[Mapping[str, tuple[object, ...]]] = {
    "type": ("transformer",),
    "transformer-decoder-autoreg": ("self-attention", "rnn"),
    "transformer-ffn-activation": ("swish", "relu"),  # Marian's gelu is another one than ours
    "transformer-ffn-depth": (2,),
    "transformer-decoder-ffn-depth": (0, 2),
    "transformer-no-projection": (False,),
    "transformer-no-bias": (False,),
    "transformer-no-affine": (False,),
    "transformer-pool": (False,),
    "transformer-postprocess-emb": ("", "d"),
    "transformer-train-positions": (False,),
    "transformer-train-position-embeddings": (False,),
    "input-types": ([],),
    "special-vocab": ([],),
    "right-left": (False,),
    "ulr": (False,),
    "lemma-dim-emb": (0,),
    "factors-dim-emb": (0,),
}
"""Options with the values that can be run; an option that is not there has one of them."""

_RECURRENT: Final[Mapping[str, tuple[object, ...]]] = {
    "dec-cell": ("ssru",),
    "layer-normalization": (False,),
    "transformer-rnn-projection": (False,),
}
"""Likewise, where decoder layers have a recurrent unit in place of self-attention."""

_READ: Final = """
dec-depth dim-emb enc-depth output-omit-bias transformer-decoder-dim-ffn transformer-dim-ffn
transformer-guided-alignment-layer transformer-heads transformer-postprocess transformer-postprocess-top
transformer-preprocess transformer-tied-layers
"""
_NEUTRAL: Final = """
bert-train-type-embeddings bert-type-vocab-size dec-cell-base-depth dec-cell-high-depth dim-rnn dim-vocabs enc-cell
enc-cell-depth enc-type factors-combine lemma-dependency skip tied-embeddings tied-embeddings-all tied-embeddings-src
transformer-aan-activation transformer-aan-depth transformer-aan-nogate transformer-depth-scaling transformer-dim-aan
ulr-dim-emb ulr-trainable-transformation version
"""
"""Options of other kinds of networks and of training, and what the weights tell by themselves."""

_KNOWN: Final = frozenset((*_NEEDED, *_RECURRENT, *_READ.split(), *_NEUTRAL.split()))

_NORMS: Final = {("", "dan", ""): "post", ("n", "da", "n"): "pre"}
"""What stands before, behind and on top of sublayers: dropout, addition, normalisation."""

_SUBLAYERS: Final = {"self_attn": "self", "ssru": "rnn", "encoder_decoder_attn": "context", "ffn": "ffn"}
_ATTENTION: Final = {"q_proj": "q", "k_proj": "k", "v_proj": "v", "output_proj": "o"}
_PROJECTIONS: Final = {
    "self": _ATTENTION,
    "rnn": {"input_proj": "", "forget_proj": "f"},
    "context": _ATTENTION,
    "ffn": {"inner_proj": "1", "output_proj": "2"},
}
_KINDS: Final = {"weight": "W", "bias": "b"}
_NORM: Final = {"weight": "ln_scale", "bias": "ln_bias"}
_LAYER: Final = re.compile(rf"layers\.(\d+)\.({'|'.join(_SUBLAYERS)})(?:_layer_norm|\.(\w+))\.(weight|bias)")


@final
class MarianNetwork:
    """One of Marian's transformers: weights, and the options that say what they make up."""

    def __init__(self, checkpoint: Checkpoint[Weight], *, vocab_size: int, source_vocab_size: int) -> None:
        """
        :param vocab_size: how many target pieces there are by our ids
        :param source_vocab_size: likewise of the source, if it has a table of its own
        """
        self._checkpoint: Final = checkpoint
        self._options: Final = _read_options(checkpoint)
        self.shared: Final = is_shared(checkpoint)
        self.config: Final = _configure(
            checkpoint, self._options, vocab_size, None if self.shared else source_vocab_size
        )
        self._tied: Final = self._tied_layers()
        theirs = map(self._theirs, verifier_shapes(self.config))
        checkpoint.check_names({_CONFIG, _BIAS, _TABLE, "encoder_Wemb", "decoder_Wemb", *_OUTPUTS, *theirs})

    @property
    def guided(self) -> AlignmentHeads:
        """The head that is told in training which words belong together, where any is: the first of a layer."""
        layers, name = self.config.decoder_layers, "transformer-guided-alignment-layer"
        layer = self._options.get(name, "last")
        number = layers if layer == "last" else int(layer)
        if not 1 <= number <= layers:
            raise ModelError(f"{self._options.where}: `{name}` must be last or up to {layers}, but is {layer} instead.")
        return AlignmentHeads(layer=number - 1, heads=(0,), reads="output")

    def read(self, name: str) -> Weight | None:
        """Returns a weight by our name; ``None`` for an output bias that is omitted."""
        checkpoint = self._checkpoint
        if name == OUTPUT_BIAS:
            return None if self._options.get("output-omit-bias", False) else checkpoint.read(_BIAS)
        if name in (SOURCE_TABLE, TARGET_TABLE):
            return checkpoint.read(_TABLE, "encoder_Wemb" if name == SOURCE_TABLE else "decoder_Wemb")
        if name == OUTPUT_TABLE:
            # Older versions keep it transposed.
            if _OUTPUTS[0] in checkpoint:
                return checkpoint.read(_OUTPUTS[0])
            return _transposed(checkpoint.read(_OUTPUTS[1]))
        weight = checkpoint.read(self._theirs(name))
        if name.endswith("_proj.weight"):
            return _transposed(weight)
        return weight if isinstance(weight, Rounded) else weight.ravel()

    def _theirs(self, name: str) -> str:
        """Returns what Marian calls a weight of a layer, or of the norm behind a stack."""
        stack, _, rest = name.partition(".")
        found = _LAYER.fullmatch(rest)
        if found is None:
            return f"{stack}_top_{_NORM[name.rpartition('.')[2]]}"
        number, part, projection, kind = int(found[1]), _SUBLAYERS[found[2]], found[3], found[4]
        if stack == "decoder":
            number = self._tied[number]
            if part == "self" and self.config.decoder == "ssru":
                part = "rnn"
        layer = f"{stack}_l{number + 1}_{part}"
        if projection is None:
            within = "ffn" if part in ("rnn", "ffn") else "Wo"
            return f"{layer}_{within}_{_NORM[kind]}{'_pre' if self.config.norm == 'pre' else ''}"
        return f"{layer}_{_KINDS[kind]}{_PROJECTIONS[part][projection]}"

    def _tied_layers(self) -> Sequence[int]:
        """Returns whose weights each decoder layer has."""
        name, layers = "transformer-tied-layers", self.config.decoder_layers
        tied = self._options.get(name) or list(range(1, layers + 1))
        if len(tied) != layers or not all(type(each) is int and 1 <= each <= layers for each in tied):
            raise ModelError(
                f"{self._options.where}: `{name}` must name a layer up to {layers} for each decoder layer, but is "
                f"{shortened(tied)} instead."
            )
        return [each - 1 for each in tied]


def is_shared(checkpoint: Checkpoint[Weight]) -> bool:
    """Returns whether both languages have one table of embeddings."""
    return _TABLE in checkpoint


def _read_options(checkpoint: Checkpoint[Weight]) -> Options:
    if _CONFIG not in checkpoint:
        raise ModelError(f"{checkpoint.origin}: is no Marian model; it has no {_CONFIG}.")
    text = checkpoint.read(_CONFIG)
    if isinstance(text, Rounded) or text.itemsize != 1:
        raise ModelError(f"{checkpoint.origin}: {_CONFIG} must be text, but is something else.")
    where = f"{checkpoint.origin}: {_CONFIG}"
    return parse_options(text.tobytes().rstrip(b"\0").decode("utf-8", errors="replace"), where)


def parse_options(text: str, where: object) -> Options:
    """Returns options in YAML by name."""
    record = parse_yaml(text, where)
    if not isinstance(record, dict):
        raise ModelError(f"{where}: must hold options by name, but holds a {type(record).__name__} instead.")
    return Options(where, record)


def _configure(
    checkpoint: Checkpoint[Weight], options: Options, vocab_size: int, source_vocab_size: int | None
) -> VerifierConfig:
    options.require({**_NEEDED, "transformer-decoder-dim-ffn": (0, options["transformer-dim-ffn"])})
    recurrent = options.get("transformer-decoder-autoreg") == "rnn"
    if recurrent:
        Options(options.where, {"dec-cell": "gru", **options}).require(_RECURRENT)
    unknown = [name for name in options if name not in _KNOWN]
    if unknown:
        raise ModelError(f"{options.where}: has `{printable(str(unknown[0]))}`, an option that is not known here.")
    norms = tuple(
        str(options.get(f"transformer-{name}", "")) for name in ("preprocess", "postprocess", "postprocess-top")
    )
    # What has norms before its sublayers depends on the version of Marian; of Firefox's models none does.
    known = [each for each, norm in _NORMS.items() if norm == "post" or not recurrent]
    if norms not in known:
        raise ModelError(
            f"{options.where}: `transformer-preprocess`, `-postprocess` and `-postprocess-top` must be "
            f"{' or '.join(map(repr, known))}, but are {norms!r} instead."
        )
    return options.configure(
        model_dim=options["dim-emb"],
        num_heads=options["transformer-heads"],
        ffn_dim=options["transformer-dim-ffn"],
        encoder_layers=options["enc-depth"],
        decoder_layers=options["dec-depth"],
        vocab_size=vocab_size,
        source_vocab_size=source_vocab_size,
        max_length=_POSITIONS,
        norm=_NORMS[norms],
        norm_epsilon=_EPSILON,
        decoder="ssru" if recurrent else "attention",
        activation=options.get("transformer-ffn-activation", "swish"),
        tied_output=checkpoint.find(*_OUTPUTS) is None,
    )


def _transposed(weight: Weight) -> Weight:
    """Returns a matrix with its outputs for rows, as it is if it is in int8 (specmt.models.interop.marian_binary)."""
    return weight if isinstance(weight, Rounded) else np.ascontiguousarray(weight.T)
