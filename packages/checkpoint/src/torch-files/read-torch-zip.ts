import { dtypeBytes } from '../dtype.js';
import type { FileRange } from './file-range.js';
import { readTorchPickle } from './read-torch-pickle.js';
import { torchFileInvalid } from './torch-file-invalid.js';
import { maxPickleBytes, type TorchFileParts } from './torch-file-parts.js';
import { checkEntry, readZipEntries, startOfEntry, type ZipEntry } from './zip-entries.js';

/** Reads the structure of what torch.save writes since version 1.6. */
export async function readTorchZip(range: FileRange): Promise<TorchFileParts> {
  const { path } = range;
  const entries = await readZipEntries(range);
  const pickles = [...entries.keys()].filter((name) => /^[^/]+\/data\.pkl$/.test(name));
  const [name] = pickles;
  if (name === undefined || pickles.length > 1) {
    throw torchFileInvalid(path, `it is a zip file with ${pickles.length} entries data.pkl`, {
      expected: 'a file that torch.save wrote',
    });
  }
  const folder = name.slice(0, -'data.pkl'.length);
  const read = async (entry: ZipEntry, maxBytes: number): Promise<Buffer> => {
    if (entry.bytes > maxBytes) throw torchFileInvalid(path, `${entry.name} has ${entry.bytes} bytes`);
    const bytes = await range.read(await startOfEntry(range, entry), entry.bytes);
    checkEntry(entry, bytes, path);
    return bytes;
  };
  const order = entries.get(`${folder}byteorder`);
  if (order !== undefined && (await read(order, 64)).toString('latin1') !== 'little') {
    throw torchFileInvalid(path, 'its numbers are big-endian', {
      expected: 'a file that was saved on a little-endian machine',
    });
  }
  return {
    content: readTorchPickle(await read(entries.get(name)!, maxPickleBytes), path),
    find: async ({ key, dtype, numElements }) => {
      const entry = entries.get(`${folder}data/${key}`);
      if (entry === undefined) {
        throw torchFileInvalid(path, `${folder}data/${key}, which a tensor refers to, is missing`);
      }
      const bytes = numElements * dtypeBytes[dtype];
      if (entry.bytes !== bytes) {
        throw torchFileInvalid(path, `${entry.name} has ${entry.bytes} bytes, and ${bytes} are declared`);
      }
      const start = await startOfEntry(range, entry);
      return { start, bytes, check: (values) => checkEntry(entry, values, path) };
    },
  };
}
