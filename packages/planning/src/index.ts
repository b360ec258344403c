export { type CalibratedProfileOptions, calibratedProfile } from './calibration/calibrated-profile.js';
export { type MeasureRatesOptions, measureRates } from './calibration/measure-rates.js';
export { collectiveBytesOf, type ReferenceRun, referenceRuns } from './calibration/reference-runs.js';
export { type DryRun, dryRun } from './dry-run/dry-run.js';
export {
  type CommunicationScope,
  type DryRunRank,
  type DryRunRankOptions,
  dryRunRank,
  type MemoryByKind,
  type MetaRun,
  metaRun,
} from './dry-run/dry-run-rank.js';
export {
  type LibraryMemory,
  type PlannedRanks,
  type PlanRunOptions,
  planRun,
  type RunPlan,
  wholeMemory,
  withDeviceOfProfile,
} from './plan/plan-run.js';
export type { LayoutCandidate } from './plan/search/layout-candidates.js';
export {
  type FoundLayout,
  type LayoutSearch,
  type SearchLayoutsOptions,
  type SearchProgress,
  searchLayouts,
} from './plan/search/search-layouts.js';
