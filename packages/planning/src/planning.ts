import type { RunPlanning } from '@mtl/runs';
import { planToCompare } from './comparison/plan-comparison.js';
import { printDryRun } from './dry-run/print-dry-run.js';
import { explainOutOfMemory } from './memory/explain-out-of-memory.js';
import { peakBytesOfRun } from './memory/peak-of-run.js';
import { matmulsOfRun } from './plan/matmuls-of-run.js';
import { profileOperations } from './profile/profile-operations.js';

/** The planner, which callers pass to `train` and `runTrainingProgram` in @mtl/runs. */
export const planning: RunPlanning = {
  printDryRun,
  explainOutOfMemory,
  planToCompare,
  matmulsOfRun,
  peakBytesOfRun,
  profileOperations,
};
