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
export { renameFile, renameFileSync } from './rename-file.js';
export { BinaryFileWriter, syncDirectory, temporaryPath, writeFileAtomically } from './write-files.js';
