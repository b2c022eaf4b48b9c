# SPDX-License-Identifier: Apache-2.0
"""Layer room: recurrent cells and networks.

The input's share of all gates is one matmul over the whole sequence. The walk of an LSTM or a GRU along it is then
one op (``lstm_walk``, ``gru_walk``); other cells, masked and projected walks are recorded unrolled, each time step
adding the state's share. Gate order in the weights is i, f, c, o (LSTM) and r, z, c (GRU).
"""
import math

from ... import _core
from ...amp.auto_cast import half_for
from .. import functional as F
from ..initializer import Uniform
from .container import LayerList
from .layers import Layer

__all__ = ["BiRNN", "GRU", "GRUCell", "LSTM", "LSTMCell", "RNN", "RNNCellBase", "SimpleRNN", "SimpleRNNCell"]


class RNNCellBase(Layer):
    """Base of cells: ``cell(inputs, states) -> (output, new states)``. Subclasses may give
    ``state_shape``.
    """

    def get_initial_states(self, batch_ref, shape=None, dtype=None, init_value=0.0, batch_dim_idx=0):
        """Tensors [batch, *shape] filled with ``init_value``; nested as ``shape`` (default ``state_shape``)
        is.
        """
        import yuloh
        shape = self.state_shape if shape is None else shape
        batch = batch_ref.shape[batch_dim_idx]
        dtype = dtype or batch_ref.dtype

        def make(part):
            if isinstance(part, (list, tuple)) and part and isinstance(part[0], (list, tuple)):
                return tuple(make(p) for p in part)
            sizes = list(part) if isinstance(part, (list, tuple)) else [part]
            return yuloh.full([batch, *sizes], init_value, dtype=dtype)

        return make(shape)

    @property
    def state_shape(self):
        """Shape of one sample's state."""
        raise NotImplementedError(f"{type(self).__name__}: state_shape is not defined.")

    @property
    def state_dtype(self):
        """dtype of the states."""
        return self._dtype


class _GatedCell(RNNCellBase):
    """Weights of ``gates`` gates: weight_ih [gates * hidden, in], weight_hh [gates * hidden, out], biases."""

    gates = 1

    def __init__(self, input_size, hidden_size, weight_ih_attr, weight_hh_attr, bias_ih_attr, bias_hh_attr,
                 proj_size=0):
        super().__init__()
        if hidden_size <= 0:
            raise ValueError(f"{type(self).__name__}: hidden_size must be positive, got {hidden_size}.")
        spread = 1.0 / math.sqrt(hidden_size)
        law = Uniform(-spread, spread)
        rows = self.gates * hidden_size

        def make(shape, attr, is_bias):
            if attr is not False:
                return self.create_parameter(shape, attr=attr, is_bias=is_bias, default_initializer=law)
            # Without an attribute Paddle keeps a frozen parameter: weights of 1, biases of 0.
            from ..initializer import Constant
            law_of_frozen = Constant(0.0 if is_bias else 1.0)
            frozen = self.create_parameter(shape, is_bias=is_bias, default_initializer=law_of_frozen)
            frozen.stop_gradient = True
            return frozen

        self.weight_ih = make([rows, input_size], weight_ih_attr, False)
        self.weight_hh = make([rows, proj_size or hidden_size], weight_hh_attr, False)
        self.bias_ih = make([rows], bias_ih_attr, True)
        self.bias_hh = make([rows], bias_hh_attr, True)
        self.input_size, self.hidden_size = input_size, hidden_size

    def project(self, inputs):
        """The input's share of the gates: [..., in] -> [..., gates * hidden]."""
        return self._from_input(inputs) + self.bias_ih

    def _from_input(self, inputs):
        import yuloh
        return yuloh.matmul(inputs, self.weight_ih, transpose_y=True)

    def _from_state(self, state):
        import yuloh
        return yuloh.matmul(state, self.weight_hh, transpose_y=True) + self.bias_hh

    def advance(self, projected, states):
        """(output, new states) from the input's share of the gates and the old states."""
        raise NotImplementedError

    def forward(self, inputs, states=None):
        if states is None:
            states = self.get_initial_states(inputs)
        return self.advance(self.project(inputs), states)

    @property
    def state_shape(self):
        return (self.hidden_size,)

    def extra_repr(self):
        return f"{self.input_size}, {self.hidden_size}"


class SimpleRNNCell(_GatedCell):
    """h' = act(W_ih x + b_ih + W_hh h + b_hh); act is 'tanh' or 'relu'."""

    def __init__(self, input_size, hidden_size, activation="tanh", weight_ih_attr=None, weight_hh_attr=None,
                 bias_ih_attr=None, bias_hh_attr=None, name=None):
        if activation not in ("tanh", "relu"):
            raise ValueError(f"SimpleRNNCell: activation must be 'tanh' or 'relu', got {activation!r}.")
        super().__init__(input_size, hidden_size, weight_ih_attr, weight_hh_attr, bias_ih_attr, bias_hh_attr)
        self.activation = activation

    def advance(self, projected, states):
        h = getattr(F, self.activation)(projected + self._from_state(states))
        return h, h

    def extra_repr(self):
        text = super().extra_repr()
        return text if self.activation == "tanh" else f"{text}, activation={self.activation}"


class LSTMCell(_GatedCell):
    """c' = f c + i tanh(g), h' = o tanh(c');
    with ``proj_size`` h' is projected by weight_ho [hidden, proj].
    """

    gates = 4

    def __init__(self, input_size, hidden_size, weight_ih_attr=None, weight_hh_attr=None, bias_ih_attr=None,
                 bias_hh_attr=None, proj_size=0, name=None):
        if proj_size < 0 or proj_size >= hidden_size > 0:
            raise ValueError(f"LSTMCell: proj_size must be from 0 to less than hidden_size, got {proj_size}.")
        super().__init__(input_size, hidden_size, weight_ih_attr, weight_hh_attr, bias_ih_attr, bias_hh_attr,
                         proj_size)
        self.proj_size = proj_size
        if proj_size:
            spread = 1.0 / math.sqrt(hidden_size)
            self.weight_ho = self.create_parameter([hidden_size, proj_size], attr=weight_hh_attr,
                                                   default_initializer=Uniform(-spread, spread))

    def advance(self, projected, states):
        import yuloh
        h, c = states
        i, f, g, o = yuloh.split(projected + self._from_state(h), 4, axis=-1)
        c = F.sigmoid(f) * c + F.sigmoid(i) * yuloh.tanh(g)
        h = F.sigmoid(o) * yuloh.tanh(c)
        if self.proj_size:
            h = yuloh.matmul(h, self.weight_ho)
        return h, (h, c)

    @property
    def state_shape(self):
        return ((self.proj_size or self.hidden_size,), (self.hidden_size,))


class GRUCell(_GatedCell):
    """c = tanh(x_c + r h_c), h' = z h + (1 - z) c."""

    gates = 3

    def __init__(self, input_size, hidden_size, weight_ih_attr=None, weight_hh_attr=None, bias_ih_attr=None,
                 bias_hh_attr=None, name=None):
        super().__init__(input_size, hidden_size, weight_ih_attr, weight_hh_attr, bias_ih_attr, bias_hh_attr)

    def advance(self, projected, states):
        import yuloh
        x_r, x_z, x_c = yuloh.split(projected, 3, axis=-1)
        h_r, h_z, h_c = yuloh.split(self._from_state(states), 3, axis=-1)
        r, z = F.sigmoid(x_r + h_r), F.sigmoid(x_z + h_z)
        c = yuloh.tanh(x_c + r * h_c)
        h = (states - c) * z + c
        return h, h


# ---- walking a cell along a sequence -----------------------------------------------------------------------
def _map(fn, *trees):
    """``fn`` on the corresponding tensors of equally nested tuples and lists."""
    if isinstance(trees[0], (list, tuple)):
        return tuple(_map(fn, *parts) for parts in zip(*trees))
    return fn(*trees)


def _masks(sequence_length, steps, dtype):
    """Per time step a [batch, 1] tensor: 1 while the step lies inside the sequence."""
    import yuloh
    times = yuloh.arange(steps, dtype="int64").unsqueeze(1)
    inside = (times < sequence_length.astype("int64").unsqueeze(0)).astype(dtype)
    return yuloh.unbind(inside.unsqueeze(-1), axis=0)


def _walked_weight(cell):
    """weight_hh as the walks take it: in half precision under automatic mixed precision."""
    half = half_for("matmul")
    return cell.weight_hh if half is None else cell.weight_hh.astype(half)


def _walk_gru(cell, projected, state, is_reverse):
    """(outputs [time, batch, hidden], final state) of a GRU cell along the input's share of its gates."""
    h, _ = _core.ops.gru_walk(projected, _walked_weight(cell), cell.bias_hh, state, is_reverse)
    return h, h[0 if is_reverse else h.shape[0] - 1]


def _walk_lstm(cell, inputs, states, is_reverse):
    """(outputs [time, batch, hidden], final states) of an LSTM cell along time-major ``inputs``."""
    weight = _walked_weight(cell)
    gates, bias = cell._from_input(inputs), cell.bias_hh
    if gates.dtype == bias.dtype == cell.bias_ih.dtype:  # the walk adds both biases: one pass over the gates less
        bias = cell.bias_ih + bias
    else:
        gates = gates + cell.bias_ih
    h, c, _ = _core.ops.lstm_walk(gates, weight, bias, *states, is_reverse)
    last = 0 if is_reverse else h.shape[0] - 1
    return h, (h[last], c[last])


def _walk(cell, inputs, states, masks, is_reverse, mask_outputs, axis=0, **kwargs):
    """Outputs (stacked along ``axis``) and final states of ``cell`` along time-major ``inputs``."""
    import yuloh
    hooked = cell._forward_pre_hooks or cell._forward_post_hooks
    quick = isinstance(cell, _GatedCell) and not kwargs and not hooked
    projected = cell.project(inputs) if quick else inputs
    if quick and masks is None and type(cell) is LSTMCell and not cell.proj_size and inputs.shape[0] and \
            all(t.dtype == projected.dtype for t in (*states, cell.bias_hh)):
        outputs, states = _walk_lstm(cell, inputs, states, is_reverse)
        return (outputs if axis == 0 else outputs.transpose([1, 0, 2])), states
    if quick and masks is None and type(cell) is GRUCell and inputs.shape[0] and \
            states.dtype == cell.bias_hh.dtype == projected.dtype:
        outputs, states = _walk_gru(cell, projected, states, is_reverse)
        return (outputs if axis == 0 else outputs.transpose([1, 0, 2])), states
    sequence = _map(lambda t: yuloh.unbind(t, axis=0), projected)
    steps = len(sequence) if quick or not isinstance(inputs, (list, tuple)) else len(sequence[0])
    outputs = [None] * steps
    for t in (reversed(range(steps)) if is_reverse else range(steps)):
        x = sequence[t] if quick or not isinstance(inputs, (list, tuple)) else tuple(s[t] for s in sequence)
        out, new = cell.advance(x, states) if quick else cell(x, states, **kwargs)
        if masks is not None:
            keep = masks[t]
            new = _map(lambda n, o, k=keep: n * k + o * (1.0 - k), new, states)
            if mask_outputs:
                out = _map(lambda n, k=keep: n * k, out)
        states, outputs[t] = new, out
    return _map(lambda *parts: yuloh.stack(list(parts), axis=axis), *outputs), states


def _run(cell, inputs, states, sequence_length, is_reverse, time_major, mask_outputs=False, **kwargs):
    """(outputs, final states) of a cell along ``inputs``; layouts as the caller has them."""
    import yuloh
    first = inputs[0] if isinstance(inputs, (list, tuple)) else inputs
    if states is None:
        states = cell.get_initial_states(first, batch_dim_idx=1 if time_major else 0)
    if not time_major:
        inputs = _map(lambda t: t.transpose([1, 0, *range(2, len(t.shape))]), inputs)
        first = inputs[0] if isinstance(inputs, (list, tuple)) else inputs
    masks = None if sequence_length is None else _masks(sequence_length, first.shape[0], first.dtype)
    return _walk(cell, inputs, states, masks, is_reverse, mask_outputs, 0 if time_major else 1, **kwargs)


class RNN(Layer):
    """Walks any cell along [batch, time, ...] (or time first) -> (outputs, final states)."""

    def __init__(self, cell, is_reverse=False, time_major=False):
        super().__init__()
        self.cell = cell
        self.is_reverse, self.time_major = is_reverse, time_major

    def forward(self, inputs, initial_states=None, sequence_length=None, **kwargs):
        return _run(self.cell, inputs, initial_states, sequence_length, self.is_reverse, self.time_major,
                    **kwargs)


class BiRNN(Layer):
    """A cell forwards and one backwards; outputs are joined on the last axis, states are a pair."""

    def __init__(self, cell_fw, cell_bw, time_major=False):
        super().__init__()
        if cell_fw.input_size != cell_bw.input_size:
            raise ValueError(f"BiRNN: input sizes differ, got {cell_fw.input_size} and {cell_bw.input_size}.")
        self.cell_fw, self.cell_bw = cell_fw, cell_bw
        self.time_major = time_major

    def forward(self, inputs, initial_states=None, sequence_length=None, **kwargs):
        import yuloh
        fw, bw = (None, None) if initial_states is None else initial_states
        out_fw, fw = _run(self.cell_fw, inputs, fw, sequence_length, False, self.time_major, **kwargs)
        out_bw, bw = _run(self.cell_bw, inputs, bw, sequence_length, True, self.time_major, **kwargs)
        return _map(lambda a, b: yuloh.concat([a, b], axis=-1), out_fw, out_bw), (fw, bw)


class _Network(LayerList):
    """``num_layers`` of a cell, one or two directions. Parameters also stand here as weight_ih_l0,
    ..._reverse.
    """

    def __init__(self, make_cell, input_size, hidden_size, num_layers, direction, time_major, dropout,
                 proj_size=0):
        super().__init__()
        words = {"forward": 1, "bidirect": 2, "bidirectional": 2}
        if direction not in words:
            raise ValueError(f"{type(self).__name__}: direction must be one of {list(words)}, got "
                             f"{direction!r}.")
        if num_layers < 1:
            raise ValueError(f"{type(self).__name__}: num_layers must be positive, got {num_layers}.")
        self.input_size, self.hidden_size, self.num_layers = input_size, hidden_size, num_layers
        self.num_directions, self.time_major, self.dropout = words[direction], time_major, dropout
        self.proj_size = proj_size
        self.state_components = 2 if make_cell.func is LSTMCell else 1
        width = (proj_size or hidden_size) * self.num_directions
        for layer in range(num_layers):
            size = input_size if layer == 0 else width
            if self.num_directions == 1:
                self.append(RNN(make_cell(size, hidden_size), False, time_major))
            else:
                self.append(BiRNN(make_cell(size, hidden_size), make_cell(size, hidden_size), time_major))
        self._list_parameters()

    def _cells(self):
        """(suffix, cell) of every layer and direction."""
        for number, layer in enumerate(self._sub_layers.values()):
            if self.num_directions == 1:
                yield f"_l{number}", layer.cell
            else:
                yield f"_l{number}", layer.cell_fw
                yield f"_l{number}_reverse", layer.cell_bw

    def _list_parameters(self):
        for suffix, cell in self._cells():
            for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"):
                self._parameters[name + suffix] = getattr(cell, name)

    def _split_states(self, states):
        """Per layer and direction the state of one cell, from tensors [layers * directions, batch, size]."""
        import yuloh
        if states is None:
            return None
        if self.state_components == 1:
            states = states[0] if isinstance(states, (list, tuple)) else states
            return yuloh.unbind(states, axis=0)
        return list(zip(*(yuloh.unbind(part, axis=0) for part in states)))

    def forward(self, inputs, initial_states=None, sequence_length=None):
        import yuloh
        x = inputs if self.time_major else inputs.transpose([1, 0, 2])
        given = self._split_states(initial_states)
        masks = None if sequence_length is None else _masks(sequence_length, x.shape[0], x.dtype)
        finals, cells = [], list(self._cells())
        for number in range(self.num_layers):
            if number and self.dropout > 0.0:
                x = F.dropout(x, p=self.dropout, training=self.training, mode="upscale_in_train")
            parts = []
            for direction in range(self.num_directions):
                position = number * self.num_directions + direction
                cell = cells[position][1]
                states = cell.get_initial_states(x, batch_dim_idx=1) if given is None else given[position]
                outputs, states = _walk(cell, x, states, masks, direction == 1, True)
                parts.append(outputs)
                finals.append(states)
            x = parts[0] if len(parts) == 1 else yuloh.concat(parts, axis=-1)
        outputs = x if self.time_major else x.transpose([1, 0, 2])
        if self.state_components == 1:
            return outputs, yuloh.stack(finals, axis=0)
        return outputs, tuple(yuloh.stack(list(part), axis=0) for part in zip(*finals))

    def extra_repr(self):
        text = f"{self.input_size}, {self.hidden_size}"
        if self.num_layers != 1:
            text += f", num_layers={self.num_layers}"
        if self.time_major:
            text += f", time_major={self.time_major}"
        if self.dropout != 0:
            text += f", dropout={self.dropout}"
        return text


def _maker(cell, *attrs, **settings):
    """Constructor of ``cell`` from (input size, hidden size) with the rest fixed."""
    def make(input_size, hidden_size):
        return cell(input_size, hidden_size, weight_ih_attr=attrs[0], weight_hh_attr=attrs[1],
                    bias_ih_attr=attrs[2], bias_hh_attr=attrs[3], **settings)
    make.func = cell
    return make


class SimpleRNN(_Network):
    """Elman network over [batch, time, input] -> outputs [batch, time, hidden], h [layers * directions,
    batch, hidden].
    """

    def __init__(self, input_size, hidden_size, num_layers=1, direction="forward", time_major=False,
                 dropout=0.0, activation="tanh", weight_ih_attr=None, weight_hh_attr=None, bias_ih_attr=None,
                 bias_hh_attr=None, name=None):
        make = _maker(SimpleRNNCell, weight_ih_attr, weight_hh_attr, bias_ih_attr, bias_hh_attr,
                      activation=activation)
        super().__init__(make, input_size, hidden_size, num_layers, direction, time_major, dropout)
        self.activation = activation


class LSTM(_Network):
    """LSTM over [batch, time, input] -> outputs, (h, c) with h and c [layers * directions, batch, hidden]."""

    def __init__(self, input_size, hidden_size, num_layers=1, direction="forward", time_major=False,
                 dropout=0.0, weight_ih_attr=None, weight_hh_attr=None, bias_ih_attr=None, bias_hh_attr=None,
                 proj_size=0, name=None):
        make = _maker(LSTMCell, weight_ih_attr, weight_hh_attr, bias_ih_attr, bias_hh_attr,
                      proj_size=proj_size)
        super().__init__(make, input_size, hidden_size, num_layers, direction, time_major, dropout, proj_size)


class GRU(_Network):
    """GRU over [batch, time, input] -> outputs, h [layers * directions, batch, hidden]."""

    def __init__(self, input_size, hidden_size, num_layers=1, direction="forward", time_major=False,
                 dropout=0.0, weight_ih_attr=None, weight_hh_attr=None, bias_ih_attr=None, bias_hh_attr=None,
                 name=None):
        make = _maker(GRUCell, weight_ih_attr, weight_hh_attr, bias_ih_attr, bias_hh_attr)
        super().__init__(make, input_size, hidden_size, num_layers, direction, time_major, dropout)
