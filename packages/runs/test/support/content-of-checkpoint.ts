import { Checkpoint, dtypeBytes, hostTensor, loadCheckpoint } from '@mtl/checkpoint';

/** Returns the bytes of every whole tensor, by name: weights, and both moments of Adam. */
export async function contentOfCheckpoint(path: string): Promise<ReadonlyMap<string, string>> {
  const checkpoint = await Checkpoint.open(path);
  const tensors = [...checkpoint.tensors.values()].map(({ name, dtype, globalShape }) => {
    const bytes = globalShape.reduce((product, size) => product * size, dtypeBytes[dtype]);
    return hostTensor({ name, dtype, globalShape, memory: new Uint8Array(bytes) });
  });
  await loadCheckpoint({ checkpoint, tensors });
  return new Map(tensors.map(({ name, memory }) => [name, Buffer.from(memory!).toString('base64')]));
}
