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
