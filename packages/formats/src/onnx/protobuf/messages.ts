import { create, createFileRegistry, type DescMessage, fromBinary, toBinary } from '@bufbuild/protobuf';
import {
  FileDescriptorProtoSchema,
  FieldDescriptorProto_Label as Label,
  FieldDescriptorProto_Type as Type,
} from '@bufbuild/protobuf/wkt';

/** A tensor of a model. Its values are in `rawData` (little-endian) or in a separate file. */
export interface TensorProto {
  readonly name: string;
  readonly dims: readonly bigint[];
  readonly dataType: number;
  readonly rawData?: Uint8Array;
  /** Where the values are in a separate file: `location`, `offset` and `length`. */
  readonly externalData?: readonly KeyAndValue[];
  readonly dataLocation?: number;
}

interface KeyAndValue {
  readonly key: string;
  readonly value: string;
}

/** An attribute of a node. `type` states which field contains the value. */
export interface AttributeProto {
  readonly name: string;
  readonly type: number;
  readonly f?: number;
  readonly i?: bigint;
  readonly s?: Uint8Array;
  readonly ints?: readonly bigint[];
}

/** A call of an operator. */
export interface NodeProto {
  readonly opType: string;
  readonly domain: string;
  readonly name: string;
  readonly input: readonly string[];
  readonly output: readonly string[];
  readonly attribute: readonly AttributeProto[];
}

/** An input or an output of a graph. */
export interface ValueInfoProto {
  readonly name: string;
  readonly type: {
    readonly tensorType: {
      readonly elemType: number;
      readonly shape: { readonly dim: readonly { dimValue?: bigint; dimParam?: string }[] };
    };
  };
}

export interface GraphProto {
  readonly name: string;
  readonly node: readonly NodeProto[];
  readonly initializer: readonly TensorProto[];
  readonly input: readonly ValueInfoProto[];
  readonly output: readonly ValueInfoProto[];
}

export interface ModelProto {
  readonly irVersion: bigint;
  readonly producerName: string;
  readonly opsetImport: readonly { readonly domain: string; readonly version: bigint }[];
  readonly graph?: GraphProto;
}

type Field = readonly [number: number, type: string, repeated?: 'repeated'];

/** The ONNX messages that this project writes, with the field numbers of onnx.proto. */
const messages: Readonly<Record<string, Readonly<Record<string, Field>>>> = {
  KeyAndValue: { key: [1, 'string'], value: [2, 'string'] },
  TensorProto: {
    dims: [1, 'int64', 'repeated'],
    data_type: [2, 'int32'],
    name: [8, 'string'],
    raw_data: [9, 'bytes'],
    external_data: [13, 'KeyAndValue', 'repeated'],
    data_location: [14, 'int32'],
  },
  AttributeProto: {
    name: [1, 'string'],
    f: [2, 'float'],
    i: [3, 'int64'],
    s: [4, 'bytes'],
    ints: [8, 'int64', 'repeated'],
    type: [20, 'int32'],
  },
  NodeProto: {
    input: [1, 'string', 'repeated'],
    output: [2, 'string', 'repeated'],
    name: [3, 'string'],
    op_type: [4, 'string'],
    attribute: [5, 'AttributeProto', 'repeated'],
    domain: [7, 'string'],
  },
  Dimension: { dim_value: [1, 'int64'], dim_param: [2, 'string'] },
  TensorShapeProto: { dim: [1, 'Dimension', 'repeated'] },
  TensorType: { elem_type: [1, 'int32'], shape: [2, 'TensorShapeProto'] },
  TypeProto: { tensor_type: [1, 'TensorType'] },
  ValueInfoProto: { name: [1, 'string'], type: [2, 'TypeProto'] },
  GraphProto: {
    node: [1, 'NodeProto', 'repeated'],
    name: [2, 'string'],
    initializer: [5, 'TensorProto', 'repeated'],
    input: [11, 'ValueInfoProto', 'repeated'],
    output: [12, 'ValueInfoProto', 'repeated'],
  },
  OperatorSetIdProto: { domain: [1, 'string'], version: [2, 'int64'] },
  ModelProto: {
    ir_version: [1, 'int64'],
    producer_name: [2, 'string'],
    graph: [7, 'GraphProto'],
    opset_import: [8, 'OperatorSetIdProto', 'repeated'],
  },
};

const scalars: Readonly<Record<string, Type>> = {
  int64: Type.INT64,
  int32: Type.INT32,
  string: Type.STRING,
  bytes: Type.BYTES,
  float: Type.FLOAT,
};

const registry = createFileRegistry(
  create(FileDescriptorProtoSchema, {
    name: 'onnx.proto',
    package: 'onnx',
    // with this syntax, every field that is set is written, even if its value is zero
    syntax: 'proto2',
    messageType: Object.entries(messages).map(([name, fields]) => ({
      name,
      field: Object.entries(fields).map(([field, [number, type, repeated]]) => ({
        name: field,
        number,
        label: repeated === undefined ? Label.OPTIONAL : Label.REPEATED,
        ...(scalars[type] === undefined
          ? { type: Type.MESSAGE, typeName: `.onnx.${type}` }
          : { type: scalars[type] }),
      })),
    })),
  }),
  () => undefined,
);

const describe = (name: string): DescMessage => registry.getMessage(`onnx.${name}`)!;

/** The messages that are encoded and decoded separately. */
interface Messages {
  readonly ModelProto: ModelProto;
  readonly GraphProto: GraphProto;
  readonly TensorProto: TensorProto;
}

/** Returns the bytes of a message. */
export const encodeMessage = <Name extends keyof Messages>(name: Name, message: Messages[Name]): Uint8Array =>
  toBinary(describe(name), create(describe(name), message as unknown as Record<string, unknown>));

/** Parses the bytes of a message. Ignores fields that this project does not write. */
export const decodeMessage = <Name extends keyof Messages>(name: Name, bytes: Uint8Array): Messages[Name] =>
  fromBinary(describe(name), bytes) as unknown as Messages[Name];
