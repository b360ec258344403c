export { type ErrorMessage, packError, unpackError } from './error-message.js';
export { chooseExitCode, formatError } from './format-error.js';
export {
  CheckpointError,
  CommunicationError,
  ConfigurationError,
  DataError,
  KernelError,
  MtlError,
  type MtlErrorOptions,
  TrainingError,
  UsageError,
} from './mtl-error.js';
export { listedNames, nearestDivisors, nearestMultiples, nearestName } from './nearest-names.js';
export { changedError, namingFile, rewordError } from './reword-error.js';
