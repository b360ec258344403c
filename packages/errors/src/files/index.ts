export { isJsonObject } from './json-object.js';
export {
  FileTooLargeError,
  fileProblem,
  IrregularFileError,
  openRegularFile,
  openRegularHandle,
  readFully,
  readHandleFully,
  readRegularFile,
  readRegularText,
} from './regular-files.js';
export { BinaryFileWriter, syncDirectoryOf, temporaryPath, writeFileAtomically } from './write-files.js';
