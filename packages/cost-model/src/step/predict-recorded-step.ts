import { type CommunicationPart, communicationPart, communicationParts } from '@mtl/layout';
import { type PassKind, type PipelineSchedule, simulateSchedule } from '@mtl/pipeline/schedules';
import type { CollectiveOperation, Operation } from '../operations/operation.js';
import type { Profile } from '../profiles/profile.js';
import { collectiveSeconds, overlappedSeconds } from '../timing/collective-seconds.js';
import { ratesFor } from '../timing/measured-times.js';
import { noSeconds, operationsSeconds, type PassSeconds, passSeconds } from '../timing/operations-seconds.js';
import type { StepPrediction } from './predict-step-time.js';

/**
 * The operations on one rank for the forward and backward passes of one micro-batch on a model chunk, by kind
 * of pass.
 */
export type RecordedPasses = Readonly<Partial<Record<PassKind, readonly Operation[]>>>;

/** Operations that the ranks of a pipeline stage run once per step. */
export interface RecordedEnd {
  /** Norm, clipping and update, with collectives along axes other than the data axis. */
  readonly operations: readonly Operation[];
  /** The reduction of gradients, during or after the backward pass. */
  readonly reduction: DataCollectives;
  /** The gathering of parameters, after the update or during the forward pass. */
  readonly gather: DataCollectives;
}

/** The operations of a step, as recorded by a dry run. */
export interface RecordedStep {
  readonly schedule: PipelineSchedule;
  /** Passes of every chunk, in the order of the model. */
  readonly chunks: readonly RecordedPasses[];
  /** The operations at the end of the step, for every pipeline rank. */
  readonly ends: readonly RecordedEnd[];
  /** The message between stages; absent without a pipeline. */
  readonly message?: RecordedMessage;
}

interface PredictRecordedOptions {
  readonly step: RecordedStep;
  readonly profile: Profile;
  /** Number of processes of the whole run. */
  readonly numProcesses: number;
  /**
   * Number of threads of each process; the measured rates with the nearest number of threads are used.
   * Default: the measured number.
   */
  readonly numThreads?: number | undefined;
}

/**
 * Predicts how long a training step takes by simulating its schedule, with the recorded operations of each
 * chunk's passes and their times in the profile.
 *
 * @throws ConfigurationError `MTL_PROFILE` if ranks are on several machines and the profile has no link
 *   between them
 */
export function predictRecordedStep(options: PredictRecordedOptions): StepPrediction {
  const { step } = options;
  const profile = profileOfRun(options);
  const { schedule, chunks: recorded, ends: recordedEnds } = step;
  const numRanks = schedule.actions.length;
  const chunks = passesOfChunks(recorded, profile);
  const gather = step.message?.gather === undefined ? 0 : collectiveSeconds(step.message.gather, profile);
  const ends = recordedEnds.map((end, rank) => {
    const own = chunks.filter((_, chunk) => schedule.placement[chunk] === rank);
    return secondsOfEnd(end, { profile, chunks: own });
  });
  const slowest = ends.reduce((most, end) => (end.total > most.total ? end : most));
  const receives = (kind: PassKind, chunk: number): boolean => {
    const from = kind === 'F' ? chunk - 1 : chunk + 1;
    return kind !== 'W' && from >= 0 && from < chunks.length && isSent(schedule, [from, chunk]);
  };
  const seconds = (kind: PassKind) =>
    chunks.map((passes, chunk) => passSeconds(passes[kind]) + (receives(kind, chunk) ? gather : 0));
  const simulation = simulateSchedule({
    schedule,
    times: {
      forward: seconds('F'),
      backward: seconds('B'),
      backwardInput: seconds('I'),
      backwardWeight: seconds('W'),
      communication: recordedMessageSeconds(step.message, profile),
      optimizer: slowest.total,
    },
  });
  const passes = totalOfPasses(schedule, chunks);
  const numGathers = schedule.actions.flat().filter(({ kind, chunk }) => receives(kind, chunk)).length;
  return {
    seconds: simulation.stepTime,
    breakdown: {
      ...scaled(passes, 1 / numRanks),
      host: passes.host / numRanks + slowest.host,
      ...communicationParts((axis) => {
        const part = communicationPart(axis);
        const gathers = axis === 'pp' ? gather * numGathers : 0;
        return (passes[part] + gathers) / numRanks + slowest[part];
      }),
      bubble: simulation.ranks.reduce((sum, rank) => sum + rank.idle, 0) / numRanks,
      optimizer: slowest.optimizer,
    },
    simulation,
  };
}

/** Returns the profile with the rates for the run's number of processes per machine. */
export function profileOfRun({
  profile,
  numProcesses,
  numThreads,
}: Omit<PredictRecordedOptions, 'step'>): Profile {
  const { hardware } = profile;
  if (hardware.state !== 'measured') return profile;
  const perMachine = Math.min(numProcesses, hardware.gpusPerNode.value);
  return { ...profile, hardware: ratesFor(hardware, { numProcesses: perMachine, numThreads }) };
}

type ChunkSeconds = Readonly<Record<PassKind, PassSeconds>>;

const passKinds = ['F', 'B', 'I', 'W'] as const;

/** Returns how long the passes of every chunk take. Recordings that several chunks share are timed once. */
function passesOfChunks(chunks: readonly RecordedPasses[], profile: Profile): ChunkSeconds[] {
  const known = new Map<readonly Operation[] | undefined, PassSeconds>([[undefined, noSeconds()]]);
  const { hardware } = profile;
  const host = hardware.state === 'measured' ? (hardware.rates[0]!.host?.passSeconds ?? 0) : 0;
  const timed = (operations: readonly Operation[]): PassSeconds => {
    const seconds = operationsSeconds(operations, profile);
    return { ...seconds, host: seconds.host + host };
  };
  const timeOperations = (operations: readonly Operation[] | undefined): PassSeconds => {
    const seconds = known.get(operations) ?? timed(operations!);
    known.set(operations, seconds);
    return seconds;
  };
  return chunks.map(
    (passes) =>
      Object.fromEntries(passKinds.map((kind) => [kind, timeOperations(passes[kind])])) as ChunkSeconds,
  );
}

function isSent({ placement }: PipelineSchedule, [from, to]: readonly [number, number]): boolean {
  return placement[from] !== placement[to];
}

interface EndSeconds extends Readonly<Record<CommunicationPart, number>> {
  readonly total: number;
  readonly optimizer: number;
  /** Seconds of host time that occur once per step. */
  readonly host: number;
}

function secondsOfEnd(
  { operations, reduction, gather }: RecordedEnd,
  { profile, chunks }: { readonly profile: Profile; readonly chunks: readonly ChunkSeconds[] },
): EndSeconds {
  const { hardware } = profile;
  const along = (axis: CollectiveOperation['group']['axis']): number =>
    operations.reduce(
      (sum, operation) =>
        operation.kind === 'collective' && operation.group.axis === axis
          ? sum + collectiveSeconds(operation, profile)
          : sum,
      0,
    );
  const kernels = operations.filter(({ kind }) => kind !== 'collective');
  const sum = (kinds: readonly PassKind[]): number =>
    chunks.reduce(
      (total, passes) => total + kinds.reduce((part, kind) => part + passSeconds(passes[kind]), 0),
      0,
    );
  const ofGradients =
    exposedSeconds(reduction, { behind: sum(['B', 'I', 'W']), profile }) +
    exposedSeconds(gather, { behind: sum(['F']), profile });
  const parts = {
    ...communicationParts((axis) => along(axis) + (axis === 'dp' ? ofGradients : 0)),
    optimizer: passSeconds(operationsSeconds(kernels, profile)),
    host: hardware.state === 'measured' ? (hardware.rates[0]!.host?.stepSeconds ?? 0) : 0,
  };
  return { ...parts, total: Object.values(parts).reduce((total, part) => total + part, 0) };
}

/** Sums the seconds that the passes of all ranks and micro-batches take. */
function totalOfPasses(schedule: PipelineSchedule, chunks: readonly ChunkSeconds[]): PassSeconds {
  const total = noSeconds();
  const counts = new Map<PassSeconds, number>();
  for (const { kind, chunk } of schedule.actions.flat()) {
    const seconds = chunks[chunk]![kind];
    counts.set(seconds, (counts.get(seconds) ?? 0) + 1);
  }
  for (const [seconds, count] of counts) {
    for (const key of Object.keys(total) as (keyof PassSeconds)[]) total[key] += seconds[key] * count;
  }
  return total;
}

function scaled(seconds: PassSeconds, factor: number): PassSeconds {
  const entries = Object.entries(seconds).map(([key, value]: [string, number]) => [key, value * factor]);
  return Object.fromEntries(entries) as unknown as PassSeconds;
}

/** Collectives of data-parallel ranks, which may overlap with forward and backward passes. */
interface DataCollectives {
  readonly operations: readonly CollectiveOperation[];
  readonly isOverlapped: boolean;
}

/**
 * Returns the fraction of a reduction that remains after the backward pass: its last bucket, if there are
 * several.
 */
const lastBucket = ({ length }: readonly unknown[]): number => (length > 1 ? 1 / length : 0.05);

/**
 * Returns the seconds that collectives add to forward or backward passes that take `behind` seconds: the time
 * that does not overlap, and the slowdown by the overlapped part.
 */
export function exposedSeconds(
  { operations, isOverlapped }: DataCollectives,
  { behind, profile }: { readonly behind: number; readonly profile: Profile },
): number {
  const seconds = operations.reduce((total, each) => total + collectiveSeconds(each, profile), 0);
  if (!isOverlapped) return seconds;
  return overlappedSeconds(seconds, { behind, last: lastBucket(operations), profile });
}

/** The message between stages for one micro-batch. */
export interface RecordedMessage {
  /** Bytes that one rank sends. */
  readonly bytes: number;
  /** The collective with which the receivers combine their parts. */
  readonly gather?: CollectiveOperation | undefined;
  /** True if sender and receiver are on the same node. */
  readonly isInside: boolean;
}

/** Returns the time of the message itself; 0 without a pipeline. */
export function recordedMessageSeconds(message: RecordedMessage | undefined, profile: Profile): number {
  if (message === undefined) return 0;
  const { bytes, isInside } = message;
  const group = { axis: 'pp', size: 2, perNode: isInside ? 2 : 1 } as const;
  return collectiveSeconds({ collective: 'message', bytes, group }, profile);
}
