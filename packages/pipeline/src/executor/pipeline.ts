import type { ProcessGroup } from '@mtl/comm';
import { ConfigurationError, UsageError } from '@mtl/errors';
import { countElements, type Device, type DType, deviceRange, type Tensor } from '@mtl/kernels';
import type { PipelineRecorder, RecordedActivity } from '../measured/pipeline-recorder.js';
import { oneStage } from '../schedules/one-forward-one-backward.js';
import type { PipelineSchedule } from '../schedules/pipeline-schedule.js';
import { assertSchedule } from '../simulator/check-schedule.js';
import { type MessagePlan, type PlannedAction, planMessages } from '../simulator/plan-messages.js';
import type { LossFactors, Stage, StageForward, StageLoss } from '../stage.js';
import { agreeOnPlacement, compareSteps } from './agreement.js';
import { BoundaryTransfers } from './boundary-transfers.js';

export interface PipelineOptions<Batch> {
  /**
   * The model chunks of this rank, by chunk number. Chunk 0 has the embedding, and the last chunk has the
   * head.
   */
  readonly stages: ReadonlyMap<number, Stage<Batch>>;
  /**
   * Returns the schedule of a step with `numMicroBatches` micro-batches. The pipeline calls this function
   * once for each value of `numMicroBatches`. Default: the schedule of a model with a single stage.
   */
  readonly schedule?: (numMicroBatches: number) => PipelineSchedule;
  /**
   * The pipeline's process group, whose ranks are the ranks in the schedule; undefined if the complete model
   * is on this rank.
   */
  readonly group?: ProcessGroup | undefined;
  /**
   * The ranks that hold the same boundary tensors (tensor parallelism without sequence parallelism). Each of
   * the t ranks sends 1/t of a tensor, and the receiving replicas all-gather the parts (Narayanan et al.
   * 2021, section 4.1).
   */
  readonly replicas?: ProcessGroup | undefined;
  /**
   * The rank of each chunk, if the caller knows it. The ranks then do not compare their chunks. Required in a
   * dry run, which has only one rank. Default: the ranks compare their chunks.
   */
  readonly placement?: readonly number[] | undefined;
  /** The dtype of the boundary tensors. Default: float32. */
  readonly dtype?: DType;
  /** The device of the boundary tensors. Default: cpu. */
  readonly device?: Device;
  /** Records the activities of this rank; without a recorder nothing is measured. */
  readonly recorder?: PipelineRecorder | undefined;
}

type Defaulted = 'schedule' | 'dtype' | 'device';

/** The data and callbacks of a step. */
export interface PipelineStep<Batch> {
  /** The micro-batches, the same on all ranks of the pipeline. */
  readonly batches: readonly Batch[];
  readonly lossFactors: LossFactors;
  /**
   * Receives each loss that a chunk of this rank computes for a micro-batch, after the input half of the
   * backward pass (or after the forward pass in an evaluation). The loss is freed after the call.
   */
  readonly onLoss: (loss: StageLoss, microBatch: number) => void;
}

export interface TrainingStep<Batch> extends PipelineStep<Batch> {
  /**
   * The pipeline calls this function before the chunk's last backward pass (B, or W if backward passes are
   * split). After this pass, the chunk's weight gradients are complete.
   */
  readonly beforeLastBackward?: ((chunk: number) => void) | undefined;
}

/**
 * The maximum size of the set of compared shape combinations. When the set reaches this size, it is cleared.
 * Training with a fixed batch size never reaches it.
 */
const maximumCompared = 1024;

/** Returns the activity's name in a profiler of the device. */
function rangeName({ kind, chunk, microBatch }: RecordedActivity): string {
  return microBatch === undefined ? kind : `${kind} micro-batch ${microBatch}, chunk ${chunk ?? 0}`;
}

/** A checked schedule and the actions of this rank. */
interface PreparedStep {
  readonly schedule: PipelineSchedule;
  readonly training: MessagePlan;
  readonly evaluation: MessagePlan;
  /** For each chunk on this rank, the micro-batch whose backward pass runs last. */
  readonly completing: ReadonlyMap<number, number>;
}

/**
 * Runs the forward and backward passes of a model that is split into chunks, in the order of a schedule. All
 * ranks of the group construct a pipeline and call `run` and `evaluate` in the same order.
 *
 * Receives are posted one pass before the pass that needs them. The end of the step waits for the sends. The
 * memory of a boundary tensor is released when the tensor has been used or sent. A pass waits only for its
 * own inputs.
 */
export class Pipeline<Batch> {
  /** The rank in `group` that holds the last chunk. */
  readonly lastRank: number;
  /** True if the last chunk is on this rank. */
  readonly isLast: boolean;
  /** True if chunk 0 is on this rank. */
  readonly isFirst: boolean;
  readonly #options: PipelineOptions<Batch> & Required<Pick<PipelineOptions<Batch>, Defaulted>>;
  readonly #rank: number;
  readonly #placement: readonly number[];
  readonly #prepared = new Map<number, PreparedStep>();
  /** Steps that all ranks have found to have the same boundary tensors; at most `maximumCompared`. */
  readonly #compared = new Set<string>();
  #transfers: BoundaryTransfers | undefined;

  /**
   * @throws ConfigurationError `MTL_PIPELINE_STAGES` unless every chunk is on exactly one rank
   * @throws UsageError `MTL_STAGE` for a first or last stage at a wrong position
   */
  constructor(options: PipelineOptions<Batch>) {
    const { stages, group, placement, schedule = oneStage, dtype = 'float32', device = 'cpu' } = options;
    this.#options = { ...options, schedule, dtype, device };
    this.#rank = group?.rank ?? 0;
    this.#placement = placement ?? agreeOnPlacement({ stages, group, device });
    this.lastRank = this.#placement.at(-1)!;
    this.isLast = this.lastRank === this.#rank;
    this.isFirst = this.#placement[0] === this.#rank;
  }

  /**
   * Runs the forward and backward passes of all micro-batches. After an error, the caller must call
   * `abandon`.
   *
   * @throws ConfigurationError `MTL_SCHEDULE_INVALID` for a schedule that cannot run,
   *   `MTL_PIPELINE_PLACEMENT` for a schedule whose chunks differ from the pipeline's chunks,
   *   `MTL_PIPELINE_MISMATCH` if ranks have different schedules or boundary tensors, `MTL_PIPELINE_REPLICAS`
   *   for boundary tensors that cannot be divided evenly; also the errors of the stages and the group
   */
  run(step: TrainingStep<Batch>): void {
    const { training } = this.#prepare(step.batches);
    this.#record({ kind: 'step' }, () =>
      this.#interpret(training, step.batches, (planned, transfers) => {
        const { action, completesChunk } = planned;
        if (completesChunk) step.beforeLastBackward?.(action.chunk);
        if (action.kind === 'F') this.#forward(planned, { step, transfers, pass: 'forward' });
        else this.#backward(planned, { step, transfers });
      }),
    );
  }

  /**
   * Runs only the forward passes, in the order in which the schedule runs them, and keeps no activations.
   * Throws the same errors as `run`.
   */
  evaluate(step: PipelineStep<Batch>): void {
    const { evaluation } = this.#prepare(step.batches);
    this.#record({ kind: 'evaluation' }, () =>
      this.#interpret(evaluation, step.batches, (planned, transfers) => {
        this.#forward(planned, { step, transfers, pass: 'evaluate' });
        const { chunk, microBatch } = planned.action;
        reportLosses(this.#stage(chunk), { step, microBatch });
      }),
    );
  }

  /** Releases everything that a failed step has left behind. */
  abandon(): void {
    this.#transfers?.abandon();
    this.#transfers = undefined;
    for (const stage of this.#options.stages.values()) stage.abandon();
  }

  #interpret(
    { actions, receives }: MessagePlan,
    batches: readonly Batch[],
    run: (planned: PlannedAction, transfers: BoundaryTransfers) => void,
  ): void {
    if (this.#transfers !== undefined)
      throw new UsageError('MTL_PIPELINE_STEP', 'a step is under way', {
        remedy: 'call abandon() after a step that failed',
      });
    const transfers = new BoundaryTransfers({
      ...this.#options,
      findShape: (microBatch) => this.#boundaryShape(batches[microBatch]!),
      receives,
    });
    this.#transfers = transfers;
    for (const planned of actions) {
      transfers.post(planned.numReceives);
      run(planned, transfers);
    }
    this.#record({ kind: 'wait' }, () => transfers.finish());
    this.#transfers = undefined;
  }

  #forward(
    planned: PlannedAction,
    call: {
      readonly step: PipelineStep<Batch>;
      readonly transfers: BoundaryTransfers;
      readonly pass: 'forward' | 'evaluate';
    },
  ): void {
    const { step, transfers, pass } = call;
    const { chunk, microBatch } = planned.action;
    const input = this.#take(planned, transfers);
    const forward: StageForward<Batch> = {
      microBatch,
      batch: step.batches[microBatch]!,
      lossFactors: step.lossFactors,
      input,
      endsStep: this.#completing(step.batches.length).get(chunk) === microBatch,
    };
    const stage = this.#stage(chunk);
    let result: Tensor | undefined;
    try {
      result = this.#record(planned.action, () => stage[pass](forward));
    } finally {
      input?.dispose();
    }
    this.#give(planned, transfers, result);
  }

  #backward(
    planned: PlannedAction,
    { step, transfers }: { readonly step: PipelineStep<Batch>; readonly transfers: BoundaryTransfers },
  ): void {
    const { kind, chunk, microBatch } = planned.action;
    const stage = this.#stage(chunk);
    if (kind === 'W') {
      this.#record(planned.action, () => stage.backwardWeight({ microBatch }));
      return;
    }
    const outputGradient = this.#take(planned, transfers);
    let result: Tensor | undefined;
    try {
      result = this.#record(planned.action, () =>
        stage.backwardInput({ microBatch, outputGradient, weights: kind === 'B' }),
      );
    } finally {
      outputGradient?.dispose();
    }
    this.#give(planned, transfers, result);
    reportLosses(stage, { step, microBatch });
  }

  #take({ input, action }: PlannedAction, transfers: BoundaryTransfers): Tensor | undefined {
    if (input === undefined) return undefined;
    if (input.peer === undefined) return transfers.take(input);
    return this.#record({ ...action, kind: 'wait' }, () => transfers.take(input));
  }

  #give({ output, action }: PlannedAction, transfers: BoundaryTransfers, result: Tensor | undefined): void {
    if (output !== undefined && result !== undefined) transfers.give(output, result);
    if ((output === undefined) === (result === undefined)) return;
    result?.dispose();
    const { kind, chunk, microBatch } = action;
    const said = result === undefined ? 'returned nothing' : 'returned a tensor that no other chunk expects';
    throw new UsageError('MTL_STAGE', `chunk ${chunk} ${said} from ${kind} of micro-batch ${microBatch}`);
  }

  #record<Result>(activity: RecordedActivity, body: () => Result): Result {
    const { recorder, device } = this.#options;
    return deviceRange({ device, name: rangeName(activity) }, () =>
      recorder === undefined ? body() : recorder.span(activity, body),
    );
  }

  #completing(numMicroBatches: number): ReadonlyMap<number, number> {
    return this.#prepared.get(numMicroBatches)!.completing;
  }

  #stage(chunk: number): Stage<Batch> {
    return this.#options.stages.get(chunk)!;
  }

  #boundaryShape(batch: Batch): readonly number[] {
    const [stage] = this.#options.stages.values();
    return stage!.boundaryShape(batch);
  }

  /** Plans a step and checks that all ranks agree on it. */
  #prepare(batches: readonly Batch[]): PreparedStep {
    const numMicroBatches = batches.length;
    let prepared = this.#prepared.get(numMicroBatches);
    if (prepared === undefined) {
      const schedule = this.#options.schedule(numMicroBatches);
      this.#checkSchedule(schedule, numMicroBatches);
      const training = planMessages(schedule, { rank: this.#rank });
      const last = training.actions.filter(({ completesChunk }) => completesChunk);
      prepared = {
        schedule,
        training,
        completing: new Map(last.map(({ action }) => [action.chunk, action.microBatch])),
        evaluation: planMessages(schedule, { rank: this.#rank, passes: 'forward' }),
      };
      this.#prepared.set(numMicroBatches, prepared);
    }
    if (this.#placement.length > 1) this.#compare(prepared.schedule, batches);
    return prepared;
  }

  #checkSchedule(schedule: PipelineSchedule, numMicroBatches: number): void {
    assertSchedule(schedule);
    const { placement, actions, name } = schedule;
    const size = this.#options.group?.size ?? 1;
    const isOfSize = actions.length === size && schedule.numMicroBatches === numMicroBatches;
    if (isOfSize && `${placement}` === `${this.#placement}`) return;
    throw new ConfigurationError(
      'MTL_PIPELINE_PLACEMENT',
      `schedule ${name} has ${schedule.numMicroBatches} micro-batches and chunks on ranks [${placement.join(', ')}] of ${actions.length}`,
      {
        expected: `${numMicroBatches} micro-batches, and chunks where the model has them: [${this.#placement.join(', ')}] of ${size}`,
        details: { placement, expected: this.#placement },
      },
    );
  }

  /** For each new combination of shapes, checks that all ranks expect the same boundary tensors. */
  #compare(schedule: PipelineSchedule, batches: readonly Batch[]): void {
    const { group, replicas, device, dtype } = this.#options;
    const shapes = batches.map((batch) => this.#boundaryShape(batch));
    const key = JSON.stringify(shapes);
    if (this.#compared.has(key)) return;
    if (group !== undefined) compareSteps({ schedule, dtype, shapes }, { group, device });
    const numReplicas = replicas?.size ?? 1;
    const uneven = shapes.find((shape) => countElements(shape) % numReplicas !== 0);
    if (uneven !== undefined) {
      throw new ConfigurationError(
        'MTL_PIPELINE_REPLICAS',
        `boundary tensors of shape [${uneven.join(', ')}] cannot be divided over ${numReplicas} ranks`,
        { expected: `a number of elements that divides by ${numReplicas}` },
      );
    }
    // all ranks compare the same steps, so their sets reach the limit in the same step
    if (this.#compared.size >= maximumCompared) this.#compared.clear();
    this.#compared.add(key);
  }
}

function reportLosses<Batch>(
  stage: Stage<Batch>,
  { step, microBatch }: { readonly step: PipelineStep<Batch>; readonly microBatch: number },
): void {
  const losses = stage.takeLosses(microBatch);
  try {
    for (const loss of losses) step.onLoss(loss, microBatch);
  } finally {
    for (const loss of losses) loss.dispose();
  }
}
