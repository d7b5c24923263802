// The `npu` dialect: what a kernel may say about the machine beyond scf, arith, vector, math and memref.
// Meaning, lowering and rules that IRDL cannot state: docs/compiler.md. Loaded by dialect.py.
// IRDL unifies: two uses of one constraint variable must be equal, hence a variable per attribute, and `%same`.

irdl.dialect @npu {
  // ---- Symbols of a kernel module ------------------------------------------------------------------------------

  // A scratchpad buffer. `bytes`: per lane, all copies together. The linker places it; an external symbol in the object.
  irdl.operation @buffer {
    %sym_name = irdl.base "#builtin.string"
    %bytes = irdl.base "#builtin.integer"
    %copies = irdl.base "#builtin.integer"
    %alignment = irdl.base "#builtin.integer"
    irdl.attributes { "sym_name" = %sym_name, "bytes" = %bytes, "copies" = %copies, "alignment" = %alignment }
  }

  // A DMA descriptor (pytorchsim/target/descriptor.py, field by field). An 8-aligned constant in read-only data.
  // Addresses in buffers are symbols: an index tile's `buffer`, and `local_buffer` ("" for none), whose address is added to
  // `offset` of a local transfer.
  irdl.operation @descriptor {
    %sym_name = irdl.base "#builtin.string"
    %dtype = irdl.base "#builtin.string"
    %slot = irdl.base "#builtin.integer"
    %offset = irdl.base "#builtin.integer"
    %spad_address = irdl.base "#builtin.integer"
    %lane_stride = irdl.base "#builtin.integer"
    %fill = irdl.base "#builtin.integer"
    %flags = irdl.base "#builtin.integer"
    %local_buffer = irdl.base "#builtin.string"
    %axes = irdl.base "#builtin.array"
    %bounds = irdl.base "#builtin.array"
    %index_tiles = irdl.base "#builtin.array"
    %load = irdl.is "load"
    %store = irdl.is "store"
    %store_add = irdl.is "store_add"
    %store_min = irdl.is "store_min"
    %store_max = irdl.is "store_max"
    %op = irdl.any_of(%load, %store, %store_add, %store_min, %store_max)
    irdl.attributes {
      "sym_name" = %sym_name, "slot" = %slot, "op" = %op, "dtype" = %dtype, "axes" = %axes, "offset" = %offset,
      "spad_address" = %spad_address, "lane_stride" = %lane_stride, "fill" = %fill, "bounds" = %bounds,
      "index_tiles" = %index_tiles, "flags" = %flags, "local_buffer" = %local_buffer
    }
  }

  // ---- Control functions ---------------------------------------------------------------------------------------

  // The bytes of a buffer: copy c starts at byte c * (bytes / copies).
  irdl.operation @buffer_ref {
    %symbol = irdl.base "#builtin.symbol_ref"
    %memory = irdl.base "!builtin.memref"
    irdl.attributes { "buffer" = %symbol }
    irdl.results(memory: %memory)
  }

  // dma.set of each value, of the scratchpad address and (dynamic tags) of the tag, then dma.start.
  // `set_indices[i]` says what values[i] is: 0-7 the origin of that axis; 10, 11 bytes added to index tile 0's, 1's address.
  irdl.operation @transfer {
    %symbol = irdl.base "#builtin.symbol_ref"
    %indices = irdl.base "#builtin.dense_array"
    %memory = irdl.base "!builtin.memref"
    %index = irdl.is index
    irdl.attributes { "descriptor" = %symbol, "set_indices" = %indices }
    irdl.operands(pointer: %memory, tag: %index, values: variadic %index)
  }

  irdl.operation @wait {
    %index = irdl.is index
    irdl.operands(tag: %index)
  }

  // ---- Tile functions ------------------------------------------------------------------------------------------

  // Each lane's number, in every element.
  irdl.operation @lane_id {
    %vector = irdl.base "!builtin.vector"
    irdl.results(lane: %vector)
  }

  // Lane l receives the vector of lane l XOR 2^step.
  irdl.operation @exchange {
    %step = irdl.base "#builtin.integer"
    %any = irdl.any
    %vector = irdl.base "!builtin.vector"
    %same = irdl.all_of(%any, %vector)
    irdl.attributes { "step" = %step }
    irdl.operands(input: %same)
    irdl.results(output: %same)
  }

  // Element `element` of the vector in every element, within the lane.
  irdl.operation @splat {
    %element = irdl.base "#builtin.integer"
    %vector = irdl.base "!builtin.vector"
    %other = irdl.base "!builtin.vector"
    irdl.attributes { "element" = %element }
    irdl.operands(input: %vector)
    irdl.results(output: %other)
  }

  // The largest element, in the lane, as element 0; NaNs count for nothing. What else the result has is undefined.
  irdl.operation @largest {
    %vector = irdl.base "!builtin.vector"
    %pair = irdl.base "!builtin.vector"
    irdl.operands(input: %vector)
    irdl.results(output: %pair)
  }

  // Each lane appends a vector to the shadow weights of `array`; `first` clears them before.
  irdl.operation @push_weights {
    %array = irdl.base "#builtin.integer"
    %first = irdl.base "#builtin.integer"
    %dtype = irdl.base "#builtin.string"
    %vector = irdl.base "!builtin.vector"
    irdl.attributes { "array" = %array, "first" = %first, "dtype" = %dtype }
    irdl.operands(weights: %vector)
  }

  // The vectors' registers are not given away before this place: a push reads them for as many cycles as it has rows.
  irdl.operation @keep {
    %vector = irdl.base "!builtin.vector"
    irdl.operands(inputs: variadic %vector)
  }

  // Input vector i is element i of every lane; `arrays` is a bit mask of the arrays that receive it.
  irdl.operation @push_inputs {
    %arrays = irdl.base "#builtin.integer"
    %dtype = irdl.base "#builtin.string"
    %vector = irdl.base "!builtin.vector"
    irdl.attributes { "arrays" = %arrays, "dtype" = %dtype }
    irdl.operands(inputs: %vector)
  }

  // The oldest results of `array`.
  irdl.operation @pop {
    %array = irdl.base "#builtin.integer"
    %dtype = irdl.base "#builtin.string"
    %vector = irdl.base "!builtin.vector"
    irdl.attributes { "array" = %array, "dtype" = %dtype }
    irdl.results(results: %vector)
  }
}
