import { type FileHandle, open } from 'node:fs/promises';
import { join } from 'node:path';
import { BinaryWriter, WireType } from '@bufbuild/protobuf/wire';
import { dataTypes } from './graph/data-types.js';
import { countBytes, type GraphBuilder, type StoredTensor } from './graph/graph-builder.js';
import { encodeMessage, type TensorProto } from './protobuf/messages.js';

/**
 * The version of the ONNX operators that graphs use, and the version of the file format that belongs to the
 * same ONNX release.
 */
const versions = { operators: 21, file: 10 } as const;

/**
 * The maximum size, in bytes, of a weight file or of a model together with its weights. A browser's buffers
 * cannot be larger.
 */
const usualMostBytes = 2 ** 31 - 2 ** 24;

/**
 * The alignment of weights in separate files, in bytes. It enables programs to map the weights into memory.
 */
const alignment = 4096;

/**
 * The protobuf numbers of the fields that are written without the protobuf library, because weights are
 * streamed into them.
 */
const fields = { graphOfModel: 7, initializerOfGraph: 5, rawDataOfTensor: 9 } as const;

const external = 1;

/** Writes all bytes. Several calls may be needed, because a single call may write fewer bytes. */
async function writeFully(handle: FileHandle, bytes: Uint8Array): Promise<void> {
  for (let start = 0; start < bytes.length; ) {
    start += (await handle.write(bytes, start, bytes.length - start)).bytesWritten;
  }
}

async function writeTensor(handle: FileHandle, tensor: StoredTensor): Promise<void> {
  let written = 0;
  for await (const part of tensor.read()) {
    await writeFully(handle, part);
    written += part.length;
  }
  if (written !== countBytes(tensor)) throw new Error(`${tensor.name}: ${written} bytes were written`);
}

/** Returns the tag and the length of a field with `length` bytes. */
const fieldStart = (number: number, length: number): Uint8Array =>
  new BinaryWriter().tag(number, WireType.LengthDelimited).uint32(length).finish();

const describeTensor = ({ name, type, shape }: StoredTensor): TensorProto => ({
  name,
  dataType: dataTypes[type].id,
  dims: shape.map(BigInt),
});

/** A tensor in a file of weights. */
interface PlacedTensor {
  readonly tensor: StoredTensor;
  readonly offset: number;
}

/** Distributes tensors over files of at most `mostBytes` bytes. A tensor that is larger gets its own file. */
function placeTensors(tensors: readonly StoredTensor[], mostBytes: number): PlacedTensor[][] {
  const files: PlacedTensor[][] = [];
  let end = Number.POSITIVE_INFINITY;
  for (const tensor of tensors) {
    const offset = Math.ceil(end / alignment) * alignment;
    const isNew = offset + countBytes(tensor) > mostBytes;
    if (isNew) files.push([]);
    const placed = { tensor, offset: isNew ? 0 : offset };
    files.at(-1)!.push(placed);
    end = placed.offset + countBytes(tensor);
  }
  return files;
}

/** A model file to write. */
interface ModelFile {
  readonly directory: string;
  /** `model.onnx` */
  readonly fileName: string;
  readonly graph: GraphBuilder;
  /** The most bytes of a file. */
  readonly mostBytes?: number | undefined;
}

/**
 * Writes a model tensor by tensor. The weights are in the model's file, or in separate files in the same
 * directory: `model.onnx_data`, `model.onnx_data_1` and so on.
 *
 * @returns the number of weight files; 0 if the weights are in the model's file
 */
export async function writeOnnxModel(file: ModelFile): Promise<number> {
  const { directory, fileName, graph, mostBytes = usualMostBytes } = file;
  const { weights } = graph;
  const isInside = weights.reduce((sum, tensor) => sum + countBytes(tensor), 0) < mostBytes / 2;
  const files = isInside ? [] : placeTensors(weights, mostBytes);
  const names = files.map((_, index) => `${fileName}_data${index === 0 ? '' : `_${index}`}`);
  for (const [index, placed] of files.entries()) await writeWeights(join(directory, names[index]!), placed);
  const elsewhere = files.flatMap((placed, index) =>
    placed.map(({ tensor, offset }) => ({
      ...describeTensor(tensor),
      dataLocation: external,
      externalData: Object.entries({
        location: names[index]!,
        offset: `${offset}`,
        length: `${countBytes(tensor)}`,
      }).map(([key, value]) => ({ key, value })),
    })),
  );
  const handle = await open(join(directory, fileName), 'w');
  try {
    await writeModelFile(handle, { graph, elsewhere, inside: isInside ? weights : [] });
    await handle.sync();
  } finally {
    await handle.close();
  }
  return files.length;
}

async function writeWeights(path: string, placed: readonly PlacedTensor[]): Promise<void> {
  const handle = await open(path, 'w');
  let position = 0;
  try {
    for (const { tensor, offset } of placed) {
      await writeFully(handle, new Uint8Array(offset - position));
      await writeTensor(handle, tensor);
      position = offset + countBytes(tensor);
    }
    await handle.sync();
  } finally {
    await handle.close();
  }
}

/**
 * Writes a model as nested protobuf messages. In the message of each tensor in `inside`, the values are the
 * last field.
 */
async function writeModelFile(
  handle: FileHandle,
  options: {
    readonly graph: GraphBuilder;
    readonly elsewhere: readonly TensorProto[];
    readonly inside: readonly StoredTensor[];
  },
): Promise<void> {
  const { graph, elsewhere, inside } = options;
  const { initializer, ...rest } = graph.build('mtl');
  const encodedGraph = encodeMessage('GraphProto', { ...rest, initializer: [...initializer, ...elsewhere] });
  const starts = inside.map((tensor) => {
    const length = countBytes(tensor);
    const described = encodeMessage('TensorProto', describeTensor(tensor));
    const rawData = fieldStart(fields.rawDataOfTensor, length);
    const size = described.length + rawData.length + length;
    return {
      tensor,
      bytes: Buffer.concat([fieldStart(fields.initializerOfGraph, size), described, rawData]),
      length,
    };
  });
  const graphSize = starts.reduce(
    (sum, { bytes, length }) => sum + bytes.length + length,
    encodedGraph.length,
  );
  await writeFully(
    handle,
    encodeMessage('ModelProto', {
      irVersion: BigInt(versions.file),
      producerName: 'mtl',
      opsetImport: [
        { domain: '', version: BigInt(versions.operators) },
        { domain: 'com.microsoft', version: 1n },
      ],
    }),
  );
  await writeFully(handle, fieldStart(fields.graphOfModel, graphSize));
  await writeFully(handle, encodedGraph);
  for (const { tensor, bytes } of starts) {
    await writeFully(handle, bytes);
    await writeTensor(handle, tensor);
  }
}
