"""Rapt as an attention implementation of Hugging Face's Transformers: attn_implementation="rapt"."""

import contextlib

import torch

from . import _attend

_recorders = []


def attention(
    module, query, key, value, attention_mask, dropout=0.0, scaling=None, is_causal=None, position_bias=None, softcap=None,
    s_aux=None, **kwargs,
):  # fmt: skip
    """What Transformers calls: query [batch, heads, queries, dim] → ([batch, queries, heads, dim], weights or None).

    >>> import torch, rapt.transformers
    >>> q = torch.randn(2, 8, 10, 16)
    >>> out, weights = rapt.transformers.attention(torch.nn.Module(), q, q, q, None, output_attentions=True)
    >>> out.shape, weights.shape
    (torch.Size([2, 10, 8, 16]), torch.Size([2, 8, 10, 10]))
    """
    if dropout:
        raise ValueError(f"rapt: dropout: expected 0, as weights are not dropped, got {dropout}; set attention_dropout=0")
    if kwargs.get("cache") is not None:
        raise ValueError("rapt: cache: expected keys and values as arrays, got a paged cache")
    is_causal = getattr(module, "is_causal", True) if is_causal is None else is_causal
    queries, keys = query.shape[2], key.shape[2]
    options = {"scale": scaling, "softcap": softcap or 0.0}
    if s_aux is not None:
        options["params"] = {"sink": s_aux}
    if attention_mask is None:
        # Without a mask one query sees every key, and several begin at the first key, also where a cache has room for more.
        if is_causal and queries > 1:
            options["causal"] = "top_left"
    else:
        options["mask" if attention_mask.dtype == torch.bool else "bias"] = attention_mask[..., :keys]
    if position_bias is not None:
        options["bias"] = position_bias[..., :keys] + options["bias"] if "bias" in options else position_bias[..., :keys]
    for name in ("mask", "bias"):  # rows of T5's biases are strided
        if name in options and options[name].stride(-1) != 1:
            options[name] = options[name].contiguous()
    out = _attend.attend(query, key, value, **options)
    weights = None
    if kwargs.get("output_attentions"):
        weights = _attend.weights(query, key, v=value, **options).to(query.dtype)
    for recorder in _recorders:
        recorder._record(module, query, key, value, options)
    return out.transpose(1, 2), weights


def register(name: str = "rapt") -> None:
    """Registers attn_implementation="rapt": masks are those of "sdpa", and nothing of size queries × keys is stored for
    the weights. Softcaps, attention sinks and position biases work too; attention dropout must be 0.

    model(..., output_attentions=True) gives the weights of all layers, without gradients; `record` those of chosen ones.

    >>> import torch, transformers, rapt.transformers
    >>> rapt.transformers.register()
    >>> config = transformers.BertConfig(hidden_size=32, num_hidden_layers=2, num_attention_heads=4, attention_probs_dropout_prob=0.0)
    >>> model = transformers.AutoModel.from_config(config, attn_implementation="rapt")
    >>> maps = model(torch.randint(100, (1, 50)), output_attentions=True).attentions
    >>> len(maps), maps[0].shape
    (2, torch.Size([1, 4, 50, 50]))
    """
    import transformers

    try:
        from transformers import AttentionInterface, AttentionMaskInterface
        from transformers.masking_utils import sdpa_mask
    except ImportError as error:
        raise ImportError(f"register: expected Transformers 4.53 or newer, got {transformers.__version__}") from error
    AttentionInterface.register(name, attention)
    AttentionMaskInterface.register(name, sdpa_mask)


class Recorder:
    """What attention layers were asked during a `with record(...)`: their weights are computed when they are read."""

    def __init__(self, layers=None, model=None):
        self._layers = None if layers is None else set(layers)
        self._names = {} if model is None else {id(module): name for name, module in model.named_modules()}
        self.calls = []  # (layer, query, key, value, options)
        self.names = []  # of the modules that made them
        self._seen = 0  # calls, recorded or not: a layer without a number of its own is known by its turn

    def _record(self, module, query, key, value, options):
        layer = getattr(module, "layer_idx", None)
        layer = self._seen if layer is None else layer
        self._seen += 1
        if self._layers is None or layer in self._layers:
            kept = {n: o.detach() if isinstance(o, torch.Tensor) else o for n, o in options.items()}
            self.calls.append((layer, query.detach(), key.detach(), value.detach(), kept))
            self.names.append(self._names.get(id(module)) or f"layer {layer}")

    def __len__(self):
        return len(self.calls)

    def layer(self, n):
        return self.calls[n][0]

    def name(self, n):
        """The module's name in the model that was given, or the number of its layer."""
        return self.names[n]

    def shape(self, n):
        """(batch, heads, queries, keys) of a call."""
        _, query, key, _, _ = self.calls[n]
        return (*query.shape[:3], key.shape[2])

    def weights(self, n, batch=None, head=None, rows=None):
        """Weights of the n-th recorded call, computed now: any rows of any head, so that long texts need no matrices."""
        _, query, key, value, options = self.calls[n]
        return _attend.weights(query, key, v=value, batch=batch, head=head, rows=rows, **options)


@contextlib.contextmanager
def record(layers=None, model=None):
    """with record(layers=[0, 5]) as calls: model(...) keeps queries and keys of these layers; calls.weights(n, …) gives maps.

    With a model, calls.name(n) is the name that it has for the module.

    >>> import torch, transformers, rapt.transformers
    >>> rapt.transformers.register()
    >>> config = transformers.BertConfig(hidden_size=32, num_hidden_layers=2, num_attention_heads=4, attention_probs_dropout_prob=0.0)
    >>> model = transformers.AutoModel.from_config(config, attn_implementation="rapt")
    >>> with rapt.transformers.record(layers=[1], model=model) as calls:
    ...     out = model(torch.randint(100, (1, 50)))
    >>> calls.name(0), calls.shape(0), calls.weights(0, batch=0, head=3, rows=slice(40, 50)).shape
    ('encoder.layer.1.attention.self', (1, 4, 50, 50), torch.Size([10, 50]))
    """
    recorder = Recorder(layers, model)
    _recorders.append(recorder)
    try:
        yield recorder
    finally:
        _recorders.remove(recorder)
