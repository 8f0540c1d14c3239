"""The working state of the enumeration of tiles (`tables.bounds.tiles`) and of their bounds."""

import numpy as np

from tables.bounds.layer import RESOURCES

#: The working state of the enumeration: a spatial mapping, a tile or a set of tiles, and what their bounds are made of.
#: It is one record, as passing its many arrays one by one would take several times as long as the arithmetic on them.
#: *Buffers* is a number: 2 if the global buffer stores a tensor, plus 1 if the row buffer does. *Free* is a number: 2
#: if the irrelevant loops of the global buffer's innermost class are free for a tensor, plus 1 if those outside it are,
#: plus 4 where its boxes are swept in a number of parts (`tables.bounds.sweeps`).
TILE_STATE = np.dtype([
    # The spatial mapping: `vector` holds PEs and lanes per dim and whether the PEs store each tensor (also in `in_pe`).
    # `kinds`: rows of `TileCosts.points` and `arrays`. `min_cycles`: a lower bound on its latency. `loops_left`: bound
    # divided by PEs and lanes, per dim; `class_loops_left` and `class_pes`: products per class. `has_copies`: whether
    # nothing adds up several copies of an output before the DRAM does.
    ("vector", np.int64, 19), ("in_pe", np.int64, 3), ("kinds", np.int64, 4), ("min_cycles", np.int64),
    ("loops_left", np.int64, 8), ("class_loops_left", np.int64, 4), ("class_pes", np.int64, 4),
    ("has_copies", np.int64),
    # The PEs' tile. T0 of the first `inner_open` dims is open: any divisor. Per dim: `inner_at`, which divisor T0 is, 1
    # if open; extents `e0` of a PE and of the `array`; `outer_loops`, the iterations outside the array;
    # `class_outer_loops`: products per class, of the dims that are not open. Usage [resource, tensor, buffers]:
    # `without_visits`, what does not depend on the fetches into the array, and `per_visit`, what each repetition of all
    # these fetches adds. `pe_box`: row of `TileCosts.boxes` of what PEs or MACs take; `array_box`: of the array's
    # tile, `array_at`: its places in `TileCosts.divisors`; `pe_tiles`: the fewest tiles of the PEs, per tensor.
    ("inner_open", np.int64), ("inner_at", np.int64, 8), ("e0", np.int64, 8), ("array", np.int64, 8),
    ("outer_loops", np.int64, 8), ("class_outer_loops", np.int64, 4), ("without_visits", np.int64, (RESOURCES, 3, 4)),
    ("per_visit", np.int64, (RESOURCES, 3, 4)), ("pe_box", np.int64, 3), ("array_box", np.int64, 3),
    ("array_at", np.int64, 8), ("pe_tiles", np.int64, 3),
    # The global buffer's tile. The extents of the first `open_dims` dims are open: they may be any multiple of the
    # smallest ones. Per dim: `buffer_at`, which divisor T1 is, smallest `extents`, their places `extents_at` in
    # `TileCosts.divisors`, and `largest` extents. Per class: `class_buffer_loops` (of dims whose T0 is not open) and
    # `class_loops_outside`, iterations at the global buffer and outside it; `looped_classes`: the number of classes
    # with iterations at the global buffer. `place`: index of the tile in `DramLoopBounds`. Per tensor: `box`, row of
    # `TileCosts.boxes` of the smallest tile; its `size` in elements; `moved`, elements of all tiles; `buffer_tiles`,
    # the fewest of them; `can_store` [buffers]: whether they have room for it.
    ("open_dims", np.int64), ("buffer_at", np.int64, 8), ("extents", np.int64, 8), ("extents_at", np.int64, 8),
    ("largest", np.int64, 8),
    ("class_buffer_loops", np.int64, 4), ("looped_classes", np.int64), ("class_loops_outside", np.int64, 4),
    ("place", np.int64), ("box", np.int64, 3), ("size", np.int64, 3), ("moved", np.int64, 3),
    ("buffer_tiles", np.int64, 3), ("can_store", np.int64, (3, 4)),
    # Each tensor by itself, [tensor, free, buffers]: `usage` of each resource; `scans` and `stream_cycles`; `rows` and
    # `column_cycles` of the stream per layout. `residence` [tensor, free, buffers]: steps for which a tile is in use,
    # or cycles by which the stream is longer than `stream_cycles`, or both.
    ("usage", np.int64, (3, 8, 4, RESOURCES)), ("scans", np.int64, (3, 8, 4)), ("stream_cycles", np.int64, (3, 8, 4)),
    ("rows", np.int64, (3, 8, 4, 2)), ("column_cycles", np.int64, (3, 8, 4, 2)), ("residence", np.int64, (3, 8, 4)),
    # `stored_sets`: sets of tensors in the buffers that fit, bit t for the global buffer, bit 3 + t for the row buffer.
    # Of the set and the innermost classes at hand, per tensor: `buffers`, `free` and cycles of the `streams`; the set
    # of row-`aligned` tensors, and the class that is innermost `outside` the global buffer.
    ("stored_sets", np.int64, 64), ("buffers", np.int64, 3), ("free", np.int64, 3), ("streams", np.int64, 3),
    ("aligned", np.int64), ("outside", np.int64),
    # `swept`: the tensor whose boxes are swept (`tables.bounds.sweeps`), `swept_box`: its row of `TileCosts.boxes`, of
    # which it has `swept_boxes`; `loops_swept`: iterations of all loops that sweep one. They do so in `parts` at most,
    # and another tile is taken `revisits` times as often. `fills_rows`: whether each part has several rows.
    ("swept", np.int64), ("swept_box", np.int64), ("swept_boxes", np.int64), ("loops_swept", np.int64),
    ("parts", np.int64), ("revisits", np.int64), ("fills_rows", np.int64),
])  # fmt: skip
