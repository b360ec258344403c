import { countElements, float16Bits } from '@mtl/kernels';
import type { GraphProto, NodeProto, TensorProto, ValueInfoProto } from '../protobuf/messages.js';
import { type AttributeValue, int, ints, typeNumber } from './attributes.js';
import { type DataType, dataTypes, type FloatType } from './data-types.js';

/** A value in a graph, identified by its name. */
export type Value = string;

/** A tensor of weights. Its values are read only when the file is written. */
export interface StoredTensor {
  readonly name: string;
  readonly type: DataType;
  readonly shape: readonly number[];
  /** Yields the bytes in order, in several buffers. Each buffer is valid until the next one is requested. */
  read(): AsyncIterable<Uint8Array>;
}

/** A dimension of a graph's input or output: its size, or a name if the size varies. */
export type Dimension = number | string;

type Attributes = Readonly<Record<string, AttributeValue>>;

interface Call {
  readonly attributes?: Attributes;
  /** Default: the operators of ONNX. */
  readonly domain?: 'com.microsoft';
}

/** The bytes of integers as INT64. */
const bytesOfIntegers = (values: readonly number[]): Uint8Array =>
  new Uint8Array(BigInt64Array.from(values, BigInt).buffer);

/** Returns the bytes of the given values in the given float type. */
function bytesOfFloats(values: ArrayLike<number>, type: FloatType): Uint8Array {
  const array =
    type === 'FLOAT' ? Float32Array.from(values) : Uint16Array.from(values, (value) => float16Bits(value));
  return new Uint8Array(array.buffer);
}

/**
 * Builds a graph. Most methods add a node and return the name of its output. The values of weights are read
 * later, so they are not in memory.
 */
export class GraphBuilder {
  readonly weights: StoredTensor[] = [];
  readonly #nodes: NodeProto[] = [];
  readonly #constants = new Map<string, TensorProto>();
  readonly #inputs: ValueInfoProto[] = [];
  readonly #outputs: ValueInfoProto[] = [];
  /** The names of results that are computed once and that several layers use. */
  readonly #shared = new Map<string, Value>();
  #count = 0;

  /** Adds an input. Returns its name. */
  input(name: string, type: DataType, shape: readonly Dimension[]): Value {
    this.#inputs.push(describeValue(name, type, shape));
    return name;
  }

  /** Makes the given value an output of the graph. */
  output(name: string, value: Value, { type, shape }: { type: DataType; shape: readonly Dimension[] }): void {
    this.#add('Identity', [value], [name], {});
    this.#outputs.push(describeValue(name, type, shape));
  }

  /** Adds a node with one output. `''` stands for an absent optional input. */
  op(opType: string, inputs: readonly Value[], call: Call = {}): Value {
    return this.ops(opType, inputs, { ...call, numOutputs: 1 })[0]!;
  }

  /** Adds a node with several outputs. */
  ops(opType: string, inputs: readonly Value[], call: Call & { readonly numOutputs: number }): Value[] {
    const outputs = Array.from({ length: call.numOutputs }, () => `v${this.#count++}`);
    this.#add(opType, inputs, outputs, call);
    return outputs;
  }

  /** Returns the result of `make`, which is called only once for each name. */
  once(name: string, make: () => Value): Value {
    const known = this.#shared.get(name) ?? make();
    this.#shared.set(name, known);
    return known;
  }

  /** Adds weights. Returns their name. */
  weight(tensor: StoredTensor): Value {
    if (!this.weights.some(({ name }) => name === tensor.name)) this.weights.push(tensor);
    return tensor.name;
  }

  /** Returns an integer constant. The default shape is a vector; an empty shape gives a scalar. */
  integers(values: readonly number[], shape: readonly number[] = [values.length]): Value {
    return this.#constant('INT64', shape, bytesOfIntegers(values), `${values}`);
  }

  /** Returns a scalar constant of the given float type. It can be broadcast. */
  number(value: number, type: FloatType): Value {
    return this.#constant(type, [], bytesOfFloats([value], type), `${value}`);
  }

  /** Returns a scalar constant of the type UINT8. */
  byte(value: number): Value {
    return this.#constant('UINT8', [], Uint8Array.of(value), `${value}`);
  }

  cast(value: Value, to: DataType): Value {
    return this.op('Cast', [value], { attributes: { to: typeNumber(to) } });
  }

  /** Reshapes a value. Each size is a number, or a computed value of the shape [1]. */
  reshape(value: Value, shape: readonly (number | Value)[]): Value {
    return this.op('Reshape', [value, this.#shape(shape)]);
  }

  transpose(value: Value, order: readonly number[]): Value {
    return this.op('Transpose', [value], { attributes: { perm: ints(order) } });
  }

  concat(values: readonly Value[], axis: number): Value {
    return this.op('Concat', values, { attributes: { axis: int(axis) } });
  }

  /** Splits an axis into parts of the given sizes. */
  split(value: Value, axis: number, sizes: readonly number[]): Value[] {
    if (sizes.length === 1) return [value];
    const attributes = { axis: int(axis) };
    return this.ops('Split', [value, this.integers(sizes)], { attributes, numOutputs: sizes.length });
  }

  /** Returns the size of the dimension `axis`, as a value of the shape [1]. */
  size(value: Value, axis: number): Value {
    return this.once(`size ${value} ${axis}`, () =>
      this.op('Shape', [value], { attributes: { start: int(axis), end: int(axis + 1) } }),
    );
  }

  /** Returns the graph. Its initializers do not include the weights. */
  build(name: string): GraphProto {
    return {
      name,
      node: this.#nodes,
      initializer: [...this.#constants.values()],
      input: this.#inputs,
      output: this.#outputs,
    };
  }

  #shape(sizes: readonly (number | Value)[]): Value {
    if (sizes.every((size) => typeof size === 'number')) return this.integers(sizes);
    return this.once(`shape ${sizes.join()}`, () =>
      this.concat(
        sizes.map((size) => (typeof size === 'number' ? this.integers([size]) : size)),
        0,
      ),
    );
  }

  #constant(type: DataType, shape: readonly number[], rawData: Uint8Array, text: string): Value {
    const key = `${type} [${shape}] ${text}`;
    const known = this.#constants.get(key);
    if (known !== undefined) return known.name;
    const name = `c${this.#constants.size}`;
    this.#constants.set(key, { name, dataType: dataTypes[type].id, dims: shape.map(BigInt), rawData });
    return name;
  }

  #add(
    opType: string,
    input: readonly Value[],
    output: readonly Value[],
    { attributes = {}, domain = undefined }: Call,
  ): void {
    this.#nodes.push({
      opType,
      domain: domain ?? '',
      name: `${opType}.${this.#nodes.length}`,
      input,
      output,
      attribute: Object.entries(attributes).map(([name, value]) => ({ name, ...value })),
    });
  }
}

/** Returns the number of bytes that a tensor needs. */
export const countBytes = ({ type, shape }: Pick<StoredTensor, 'type' | 'shape'>): number =>
  countElements(shape) * dataTypes[type].bytes;

const describeValue = (name: string, type: DataType, shape: readonly Dimension[]): ValueInfoProto => ({
  name,
  type: {
    tensorType: {
      elemType: dataTypes[type].id,
      shape: {
        dim: shape.map((size) =>
          typeof size === 'number' ? { dimValue: BigInt(size) } : { dimParam: size },
        ),
      },
    },
  },
});
