import { countElements, float16Bits } from '@mtl/kernels';
import type { GraphProto, NodeProto, TensorProto, ValueInfoProto } from '../protobuf/messages.js';
import { type AttributeValue, int, ints, typeNumber } from './attributes.js';
import { type DataType, dataTypes, type FloatType } from './data-types.js';

/** A value in a graph, by its name. */
export type Value = string;

/** A tensor of weights, whose values are read when the file is written. */
export interface StoredTensor {
  readonly name: string;
  readonly type: DataType;
  readonly shape: readonly number[];
  /** Yields the bytes in order, in several buffers. A buffer is valid until the next buffer is requested. */
  read(): AsyncIterable<Uint8Array>;
}

/** A dimension of an input or an output: its size, or a name if the size varies. */
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

/** Returns the bytes of numbers of a type of activations. */
function bytesOfFloats(values: ArrayLike<number>, type: FloatType): Uint8Array {
  const array =
    type === 'FLOAT' ? Float32Array.from(values) : Uint16Array.from(values, (value) => float16Bits(value));
  return new Uint8Array(array.buffer);
}

/**
 * Builds a graph. Each method adds a node and returns the name of the node's output. Weights are added as
 * sources, so that their values are not in memory.
 */
export class GraphBuilder {
  readonly weights: StoredTensor[] = [];
  readonly #nodes: NodeProto[] = [];
  readonly #constants = new Map<string, TensorProto>();
  readonly #inputs: ValueInfoProto[] = [];
  readonly #outputs: ValueInfoProto[] = [];
  /** The names of results that are computed once and used by several layers. */
  readonly #shared = new Map<string, Value>();
  #count = 0;

  /** Adds an input. Returns its name. */
  input(name: string, type: DataType, shape: readonly Dimension[]): Value {
    this.#inputs.push(describeValue(name, type, shape));
    return name;
  }

  /** Makes a value an output of the graph. */
  output(name: string, value: Value, { type, shape }: { type: DataType; shape: readonly Dimension[] }): void {
    this.#add('Identity', [value], [name], {});
    this.#outputs.push(describeValue(name, type, shape));
  }

  /** Adds a node with one output. An absent optional input is `''`. */
  op(opType: string, inputs: readonly Value[], call: Call = {}): Value {
    return this.ops(opType, inputs, { ...call, numOutputs: 1 })[0]!;
  }

  /** Adds a node with several outputs. */
  ops(opType: string, inputs: readonly Value[], call: Call & { readonly numOutputs: number }): Value[] {
    const outputs = Array.from({ length: call.numOutputs }, () => `v${this.#count++}`);
    this.#add(opType, inputs, outputs, call);
    return outputs;
  }

  /** Returns the result of `make`, which is called once for a name. */
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

  /** Returns a constant of integers; without a shape a scalar. */
  integers(values: readonly number[], shape: readonly number[] = [values.length]): Value {
    return this.#constant('INT64', shape, bytesOfIntegers(values), `${values}`);
  }

  /** Returns a number of a type of activations, which is broadcast. */
  number(value: number, type: FloatType): Value {
    return this.#constant(type, [], bytesOfFloats([value], type), `${value}`);
  }

  /** Returns a constant of the type UINT8: a scalar. */
  byte(value: number): Value {
    return this.#constant('UINT8', [], Uint8Array.of(value), `${value}`);
  }

  cast(value: Value, to: DataType): Value {
    return this.op('Cast', [value], { attributes: { to: typeNumber(to) } });
  }

  /** Reshapes to sizes: each a number, or a computed value of the shape [1]. */
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

  /** Returns the size of a dimension, of the shape [1]. */
  size(value: Value, axis: number): Value {
    return this.once(`size ${value} ${axis}`, () =>
      this.op('Shape', [value], { attributes: { start: int(axis), end: int(axis + 1) } }),
    );
  }

  /** Returns the graph, without the weights among its initializers. */
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

/** Returns the number of bytes of a tensor. */
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
