export { type ComparableRun, type ComparableValue, comparableRun, listConditions } from './comparable-run.js';
export type { ExpertLoadComparison } from './compare-expert-loads.js';
export { compareRuns, type Difference, type LossComparison, type RunComparison } from './compare-runs.js';
export { listStartFlags } from './flags-of-start-of.js';
export {
  type LastMetrics,
  lastMetricsIn,
  type MetricsRecord,
  metricsPath,
  renamedLosses,
  risingValidation,
} from './metrics-records.js';
export { isRun, listRuns, type RunInformation, readRun } from './read-run.js';
export { type RemovedRun, removeRun } from './remove-run.js';
export {
  parseRunRecord,
  type RunRecord,
  type RunStart,
  type RunState,
  runRecordPath,
  stateOfRun,
} from './run-record.js';
export { type SendRunOptions, sendRun } from './send-run.js';
