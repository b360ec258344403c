import { type ReadPickleOptions, readPickle } from './read-pickle.js';
import { storageOf, torchConstructors } from './torch-constructors.js';
import { torchFileInvalid } from './torch-file-invalid.js';

/** How pickles of PyTorch are read. */
export function torchPickleOptions(path: string): ReadPickleOptions {
  const invalid = (problem: string) => torchFileInvalid(path, problem);
  return {
    constructors: torchConstructors(invalid),
    persistent: (identifier) => storageOf(identifier, invalid),
    invalid,
  };
}

/** Reads a pickle whose classes are PyTorch's, as data. */
export const readTorchPickle = (bytes: Buffer, path: string): unknown =>
  readPickle(bytes, torchPickleOptions(path));
