import {
  type FlagName,
  type Flags,
  type LoadedFlags,
  type ParsedFlags,
  type PretrainingConfiguration,
  type ResolvedFlags,
  resolveFlags,
  validateConfiguration,
} from '@mtl/configuration';
import { numProcessesOption, parsedFlagsOption } from '@mtl/configuration/internal';
import { searchedSettings } from '@mtl/configuration/strategies';
import { type LayoutEstimate, ListedEstimates, listedProfile, type Profile } from '@mtl/cost-model';
import { profileOfRun } from '@mtl/cost-model/internal';
import { ConfigurationError, MtlError } from '@mtl/errors';
import {
  checkOptions,
  functionOption,
  type OptionChecks,
  required,
  wholeNumberOption,
} from '@mtl/errors/options';
import { storeOfStrategy } from '@mtl/optimizer';
import { readLoadedFlags } from '@mtl/runs/internal';
import { formatBytes } from '@mtl/trainer';
import { dryRunModel } from '../../dry-run/dry-run.js';
import { bytesOption, profileOption } from '../../option-checks.js';
import { listedStep, softwareOfStore } from '../listed-step.js';
import { planIfFits, planRun, type RunPlan, wholeMemory, withDeviceOfProfile } from '../plan-run.js';
import {
  type CandidateSpace,
  candidateFlags,
  checkLayoutFlags,
  fixedLayout,
  type LayoutCandidate,
  layoutCandidates,
  offeredLayouts,
  sizesOfMesh,
} from './layout-candidates.js';
import { RecordedEstimates } from './recorded-estimates.js';

export interface SearchLayoutsOptions {
  /** The flags of the run. The search keeps the layout flags that are given. */
  readonly flags: ParsedFlags;
  readonly numProcesses: number;
  readonly profile: Profile;
  /** The memory that each process may use, in bytes. Default: the memory in the profile. */
  readonly memoryBytes?: number | undefined;
  /** Number of layouts to return. Default: 5. */
  readonly numBest?: number;
  /** Called with the progress of the search after each candidate. */
  readonly onProgress?: (progress: SearchProgress) => void;
}

const checks: OptionChecks<SearchLayoutsOptions> = {
  flags: required(parsedFlagsOption),
  numProcesses: required(numProcessesOption),
  profile: required(profileOption),
  memoryBytes: bytesOption,
  numBest: wholeNumberOption(1),
  onProgress: functionOption,
};

/** The progress of a search, which counts estimated candidates and full plans. */
export interface SearchProgress {
  readonly numEstimated: number;
  readonly numCandidates: number;
  readonly numPlanned: number;
  /** The number of full plans that fit. The search ends when it reaches `numWanted`. */
  readonly numFound: number;
  readonly numWanted: number;
}

/** A layout with its full plan. */
export interface FoundLayout {
  readonly candidate: LayoutCandidate;
  readonly configuration: PretrainingConfiguration;
  /** The flags that the layout adds to the given flags. */
  readonly words: readonly string[];
  readonly plan: RunPlan;
  /**
   * The estimate before the full plan: the seconds of a step, and the bytes of the rank with the most memory.
   */
  readonly estimatedSeconds: number;
  readonly estimatedBytes: number;
}

export interface LayoutSearch {
  readonly numCandidates: number;
  /** The number of candidates that fit according to their estimates. */
  readonly numFitting: number;
  /** The layouts that fit, in order of increasing time. */
  readonly layouts: readonly FoundLayout[];
}

/**
 * Candidates are kept if their estimate exceeds the memory by at most this factor, because estimates may be
 * too high.
 */
const recordedMargin = 1.05;

/**
 * Finds the fastest layouts of a run that fit into memory. Every candidate is estimated. Candidates share
 * recorded passes, so few recordings are needed. For the best candidates, the search makes and returns full
 * plans.
 *
 * @throws ConfigurationError `MTL_OPTION`; `MTL_PLAN_LAYOUT` if no layout divides the model or fits, and for
 *   layout flags that candidates cannot have; if no candidate is valid, the errors of the first candidate's
 *   flags; the errors of `planRun`
 */
export async function searchLayouts(options: SearchLayoutsOptions): Promise<LayoutSearch> {
  checkOptions(options, { of: 'searchLayouts', checks });
  const { profile, numBest = 5, memoryBytes = profile.hardware.memoryBytes.value } = options;
  const { onProgress = () => {} } = options;
  const context = await openContext(options);
  const { resolved } = context;
  const candidates = layoutCandidates(describeSpace(resolved, options));
  if (candidates.length === 0) throw nothingDivides(resolved, options);
  const margin = profile.software.operations === 'recorded' ? recordedMargin : 1;
  const mostBytes = margin * memoryBytes;
  const numCandidates = candidates.length;
  const { estimates, refine } = await estimateCandidates(
    candidates,
    { ...context, mostBytes },
    (numEstimated) =>
      onProgress({ numEstimated, numCandidates, numPlanned: 0, numFound: 0, numWanted: numBest }),
  );
  if (estimates.length === 0) throw context.refused[0] ?? nothingDivides(resolved, options);
  const fitting = estimates
    .filter((each) => each.memoryBytes <= mostBytes)
    .sort((a, b) => a.seconds - b.seconds);
  const tryable = withoutDominated(fitting, memoryBytes / margin - mostLibraryBytes);
  const first = await nearest(tryable, refine);
  // the remaining candidates are tried afterwards, in case too few of the first candidates fit
  const tried = new Set(first.map(({ candidate }) => candidate));
  const layouts: FoundLayout[] = [];
  const tooLarge: Estimated[] = [];
  const kinds = new Set<string>();
  let numPlanned = 0;
  const onPlan = (): void => {
    const [numFound, numWanted] = [layouts.length, numBest];
    onProgress({ numEstimated: numCandidates, numCandidates, numPlanned: numPlanned++, numFound, numWanted });
  };
  for (const each of [...first, ...tryable.filter(({ candidate }) => !tried.has(candidate))]) {
    const { candidate, ...estimate } = each;
    if (kinds.has(describeKind(candidate))) continue;
    if (layouts.length === numBest) break;
    onPlan();
    const run = configured(candidate, context);
    if (run === undefined) continue;
    const plan = await planIfFits(run.configuration, { profile, memoryBytes });
    if (plan === undefined) {
      tooLarge.push(each);
      continue;
    }
    const { seconds: estimatedSeconds, memoryBytes: estimatedBytes } = estimate;
    layouts.push({ candidate, ...run, plan, estimatedSeconds, estimatedBytes });
    kinds.add(describeKind(candidate));
  }
  if (layouts.length === 0) {
    // only full plans include the memory of libraries
    const known =
      tooLarge.length > 0 ? await plannedWhole(smallest(tooLarge), { ...context, onPlan }) : estimates;
    throw nothingFits(known, { memoryBytes, numProcesses: options.numProcesses });
  }
  layouts.sort((a, b) => a.plan.iterationSeconds - b.plan.iterationSeconds);
  return { numCandidates: candidates.length, numFitting: fitting.length, layouts };
}

/**
 * Returns a key of the mesh sizes and the recomputation. Layouts with the same key are similar, and the
 * search returns only one such layout.
 */
const describeKind = (candidate: LayoutCandidate): string =>
  `${sizesOfMesh(candidate).join(' ')} ${candidate.recomputation}`;

type Estimated = LayoutEstimate & { readonly candidate: LayoutCandidate };

interface Context {
  readonly resolved: ResolvedFlags;
  readonly options: SearchLayoutsOptions;
  readonly loaded: LoadedFlags | undefined;
  /** The errors of invalid candidates, in the order of the candidates. */
  readonly refused: MtlError[];
}

/**
 * Checks the flags that do not depend on the layout.
 *
 * @throws the errors of this check and of `checkLayoutFlags`
 */
async function openContext(options: SearchLayoutsOptions): Promise<Context> {
  const loaded = await readLoadedFlags(withAdded(options, { added: {}, loaded: undefined }));
  const resolved = withAdded(options, { added: {}, loaded });
  try {
    validateConfiguration(resolved, { worldSize: options.numProcesses });
  } catch (error) {
    // any other error may be caused by the layout, so a candidate may still be valid
    if (!MtlError.isInstance(error) || error.code === 'MTL_FLAG_REQUIRED') throw error;
  }
  const isRecorded = options.profile.software.operations === 'recorded';
  checkLayoutFlags(resolved, {
    schedules: ['gpipe', '1f1b', 'interleaved', ...(isRecorded ? ['zb-h1'] : [])],
    isRecorded,
  });
  return { resolved, options, loaded, refused: [] };
}

/** Returns the run's flags with the flags `added`, which also count as given. */
function withAdded(
  { flags, profile }: SearchLayoutsOptions,
  { added, loaded }: { readonly added: Flags; readonly loaded: LoadedFlags | undefined },
): ParsedFlags {
  const entries = Object.entries(added) as unknown as readonly (readonly [FlagName, unknown])[];
  const request = {
    ...flags.request,
    given: new Map([...flags.request.given, ...entries]),
    unused: { 'micro-batch-size': 1, ...flags.request.unused },
    ...(loaded === undefined ? {} : { loaded }),
  };
  return withDeviceOfProfile({ ...flags, ...resolveFlags(request), request }, profile);
}

function describeSpace(
  resolved: ResolvedFlags,
  { numProcesses, profile }: SearchLayoutsOptions,
): CandidateSpace {
  const { values, model } = resolved;
  const { fixed, ...offered } = offeredLayouts(profile);
  return {
    ...offered,
    values,
    model,
    numProcesses,
    gpusPerNode: profile.hardware.gpusPerNode.value,
    numLayers: values['num-layers']!,
    globalBatchSize: values['global-batch-size']!,
    fixed: { ...fixed, ...fixedLayout(resolved) },
  };
}

/** Formats flags as words of a command line. A candidate's flags are switches, or have a single value. */
const formatWords = (flags: Flags): string[] =>
  Object.entries(flags).flatMap(([flag, value]) =>
    value === true ? [`--${flag}`] : [`--${flag}`, String(value)],
  );

/** Returns a candidate's configuration; undefined if its flags contradict each other. */
function configured(
  candidate: LayoutCandidate,
  { options, resolved, loaded, refused }: Context,
): { readonly configuration: PretrainingConfiguration; readonly words: string[] } | undefined {
  const { values, given } = resolved;
  const added: Flags = {
    ...candidateFlags(candidate, resolved),
    ...(values.device === 'cuda' && !given.has('device') ? { device: 'cuda' } : {}),
  };
  try {
    const flags = withAdded(options, { added, loaded });
    const configuration = validateConfiguration(flags, { worldSize: options.numProcesses });
    return { configuration, words: formatWords(added) };
  } catch (error) {
    if (!MtlError.isInstance(error)) throw error;
    refused.push(error);
    return undefined;
  }
}

/**
 * Returns estimates of the candidates. If no candidate with a certain micro-batch size fits, candidates with
 * larger micro-batches are skipped, so that their passes need not be recorded.
 */
async function estimateCandidates(
  candidates: readonly LayoutCandidate[],
  { mostBytes, ...context }: Context & { readonly mostBytes: number },
  onEstimate: (numDone: number) => void,
): Promise<{ readonly estimates: Estimated[]; readonly refine: Estimate }> {
  const { estimate, refine } =
    context.options.profile.software.operations === 'recorded'
      ? recordedEstimates(context)
      : await listedEstimates(candidates, context);
  const estimated: Estimated[] = [];
  const least = new Map<string, { readonly microBatch: number; readonly bytes: number }>();
  const sorted = [...candidates].sort((a, b) => a.microBatch - b.microBatch);
  for (const [numDone, candidate] of sorted.entries()) {
    onEstimate(numDone);
    const { pipeline: _, data: __, microBatch, chunks, schedule, ...others } = candidate;
    const passes = JSON.stringify(Object.entries(others).filter(([key]) => !isAfterPasses(key)));
    const known = least.get(passes);
    if (known !== undefined && known.microBatch < microBatch && known.bytes > mostBytes) continue;
    const each = await estimate(candidate);
    if (each === undefined) continue;
    estimated.push({ candidate, ...each });
    const isSame = known?.microBatch === microBatch;
    least.set(passes, {
      microBatch,
      bytes: isSame ? Math.min(known.bytes, each.memoryBytes) : each.memoryBytes,
    });
  }
  return { estimates: estimated, refine };
}

/** Returns true if `key` is the key of a setting that does not affect the recorded passes. */
const isAfterPasses = (key: string): boolean =>
  searchedSettings.some((setting) => setting.key === key && !setting.changesPasses);

/**
 * An upper bound for the bytes that libraries take on a GPU: workspaces, and the buffers of eight groups.
 * Estimates do not count these bytes.
 */
const mostLibraryBytes = 3 * 2 ** 30;

/**
 * Leaves out candidates that cannot win: an earlier candidate with the same passes is at least as fast, and
 * needs no more memory or at most `surelyFits` bytes.
 *
 * @param sorted candidates in order of increasing time
 */
function withoutDominated(sorted: readonly Estimated[], surelyFits: number): Estimated[] {
  const leastBytes = new Map<string, number>();
  return sorted.filter(({ candidate, memoryBytes }) => {
    const passes = Object.entries(candidate).filter(([key]) => !isAfterPasses(key));
    const key = JSON.stringify(passes);
    const known = leastBytes.get(key) ?? Number.POSITIVE_INFINITY;
    leastBytes.set(key, Math.min(known, memoryBytes));
    return known > Math.max(memoryBytes, surelyFits);
  });
}

/**
 * The number of candidates per kind, and the number of kinds, for which estimates are refined. Refined
 * estimates may have a different order.
 */
const [perKind, numKinds] = [3, 12];

/**
 * Refines the estimates of the fastest candidates of the fastest kinds (see `describeKind`). Returns the
 * refined estimates in order of increasing time.
 */
async function nearest(sorted: readonly Estimated[], refine: Estimate): Promise<Estimated[]> {
  const kinds = new Map<string, Estimated[]>();
  for (const each of sorted) {
    const key = describeKind(each.candidate);
    const kind = kinds.get(key) ?? [];
    if (kind.length === 0 && kinds.size === numKinds) break;
    kinds.set(key, kind);
    if (kind.length < perKind) kind.push(each);
  }
  const refined: Estimated[] = [];
  for (const each of [...kinds.values()].flat()) {
    const nearer = await refine(each.candidate);
    if (nearer !== undefined) refined.push({ candidate: each.candidate, ...nearer });
  }
  return refined.sort((a, b) => a.seconds - b.seconds);
}

type Estimate = (
  candidate: LayoutCandidate,
) => LayoutEstimate | undefined | Promise<LayoutEstimate | undefined>;

interface Estimates {
  readonly estimate: Estimate;
  /** Returns an estimate that is slower to compute than `estimate`'s result, but closer to the full plan. */
  readonly refine: Estimate;
}

function recordedEstimates(context: Context): Estimates {
  const { resolved, options } = context;
  const { numLayers, globalBatchSize } = describeSpace(resolved, options);
  const { profile, numProcesses } = options;
  const estimates = new RecordedEstimates({
    profile: profileOfRun({ profile, numProcesses }),
    numLayers,
    globalBatchSize,
    configure: (candidate) => configured(candidate, context)?.configuration,
  });
  return {
    estimate: (candidate) => estimates.estimate(candidate),
    refine: (candidate) => estimates.refined(candidate),
  };
}

async function listedEstimates(candidates: readonly LayoutCandidate[], context: Context): Promise<Estimates> {
  const { profile } = context.options;
  let configuration: PretrainingConfiguration | undefined;
  for (const candidate of candidates) {
    configuration = configured(candidate, context)?.configuration;
    if (configuration !== undefined) break;
  }
  if (configuration === undefined) return { estimate: () => undefined, refine: () => undefined };
  const { model } = await dryRunModel(configuration);
  const step = listedStep(configuration, { model, profile });
  const estimates = new ListedEstimates();
  const estimate: Estimate = (candidate) =>
    estimates.estimate({
      ...step,
      layout: {
        tp: candidate.tensor,
        pp: candidate.pipeline,
        dp: candidate.data,
        numChunks: candidate.chunks,
        ...(candidate.schedule === 'none' ? {} : { schedule: candidate.schedule }),
        microBatchSize: candidate.microBatch,
        globalBatchSize: step.layout.globalBatchSize,
        sequenceParallel: candidate.sequenceParallel,
        recomputation: candidate.recomputation,
      },
      profile: {
        ...step.profile,
        software: {
          ...step.profile.software,
          ...softwareOfStore(
            listedProfile(profile).software,
            storeOfStrategy(candidate.dataParallelShardingStrategy),
          ),
        },
      },
    });
  return { estimate, refine: estimate };
}

/**
 * How many candidates, beginning with the smallest estimate, get a full plan when the smallest memory is
 * determined.
 */
const numSmallest = 3;

const smallest = (layouts: readonly Estimated[]): readonly Estimated[] =>
  layouts.toSorted((a, b) => a.memoryBytes - b.memoryBytes).slice(0, numSmallest);

/**
 * Makes full plans of the given layouts. Returns each layout with the memory of its rank that needs the most
 * memory.
 */
async function plannedWhole(
  layouts: readonly Estimated[],
  { onPlan, ...context }: Context & { readonly onPlan: () => void },
): Promise<Estimated[]> {
  const { profile } = context.options;
  const planned: Estimated[] = [];
  for (const each of layouts) {
    onPlan();
    const { configuration } = configured(each.candidate, context)!;
    const { ranks } = await planRun(configuration, { profile });
    planned.push({ ...each, memoryBytes: Math.max(...ranks.map(wholeMemory)) });
  }
  return planned;
}

function nothingDivides(
  { values }: ResolvedFlags,
  { numProcesses }: SearchLayoutsOptions,
): ConfigurationError {
  const batch = values['global-batch-size'];
  return new ConfigurationError('MTL_PLAN_LAYOUT', `no layout of ${numProcesses} processes divides the run`, {
    expected:
      `tensor-parallel ranks that divide ${values['num-attention-heads']} heads, stages that divide ` +
      `${values['num-layers']} layers, and data-parallel ranks that divide a global batch of ${batch}`,
    remedy: 'choose another --num-processes or --global-batch-size, or leave out flags of the layout',
  });
}

function nothingFits(
  estimates: readonly Estimated[],
  { memoryBytes, numProcesses }: { readonly memoryBytes: number; readonly numProcesses: number },
): ConfigurationError {
  const least = estimates.reduce((a, b) => (a.memoryBytes < b.memoryBytes ? a : b));
  const { tensor, pipeline } = least.candidate;
  return new ConfigurationError(
    'MTL_PLAN_LAYOUT',
    `no layout of ${numProcesses} processes fits into ${formatBytes(memoryBytes)}`,
    {
      expected: `about ${formatBytes(least.memoryBytes)}, which tensor ${tensor} x pipeline ${pipeline} takes: the least`,
      remedy: 'use more processes, GPUs with more memory, or a smaller model',
      details: { leastBytes: least.memoryBytes, memoryBytes },
    },
  );
}
