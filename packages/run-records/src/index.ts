export {
  type ComparableRun,
  type ComparableValue,
  comparableRun,
  comparedFlags,
  listConditions,
} from './comparable-run.js';
export { compareExpertLoads, type ExpertLoadComparison } from './compare-expert-loads.js';
export { compareRuns, type Difference, type LossComparison, type RunComparison } from './compare-runs.js';
export { listStartFlags } from './list-start-flags.js';
export {
  type LastMetrics,
  lastMetricsIn,
  type MetricsRecord,
  metricsPath,
  readMetricsRecords,
  renamedLosses,
  risingValidation,
} from './metrics-records.js';
export {
  directoryOfRuns,
  findRunDirectory,
  isRun,
  listRuns,
  type RunInformation,
  readRun,
  runsDirectory,
} from './read-run.js';
export { contentsOfRun, type RemovedRun, removeRun } from './remove-run.js';
export {
  type DatasetRecord,
  parseRunRecord,
  type RunRecord,
  type RunStart,
  type RunState,
  readRunRecord,
  runRecordPath,
  stateOfRun,
  type TaskDataRecord,
  trackedRun,
  writeRunRecord,
} from './run-record.js';
export { type SendRunOptions, sendRun } from './send-run.js';
