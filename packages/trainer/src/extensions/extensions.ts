import type { JsonObject } from '@mtl/checkpoint';
import { UsageError } from '@mtl/errors';
import type { ModelOptimizer } from '@mtl/optimizer';
import type { EvaluatedStep, StepMetrics, TrainingEvent } from '../metrics/training-reports.js';
import type {
  ComputedStep,
  MeasuredStep,
  RerunRequest,
  StepSpan,
  StepVerdict,
  TrainerExtension,
} from './trainer-extension.js';

/**
 * The keys in a checkpoint's state that the training loop itself uses. Extensions must have different names.
 */
const ownKeys: readonly string[] = ['progress', 'optimizerSteps', 'lossScaler', 'configuration'];

/** All extensions of a training loop. Each method calls the extensions in order. */
export class Extensions {
  readonly #all: readonly TrainerExtension[];
  /** True if an extension decides whether updates are applied. */
  readonly decide: boolean;
  /** True if an extension needs each step to end before the next step begins. */
  readonly wait: boolean;
  /** True if an extension may compute a step a second time. */
  readonly repeat: boolean;
  /** True if an extension reads reduced gradients, or measures how long their reduction takes. */
  readonly #needReduction: boolean;

  /** @throws UsageError `MTL_EXTENSION` if two extensions have the same name for their state */
  constructor(all: readonly TrainerExtension[]) {
    const names = all.map(({ name }) => name);
    const wrong = names.find((name, index) => ownKeys.includes(name) || names.indexOf(name) !== index);
    if (wrong !== undefined) {
      throw new UsageError('MTL_EXTENSION', `two extensions of the training loop are called ${wrong}`, {
        expected: `a name for each, other than ${ownKeys.join(', ')}`,
      });
    }
    this.#all = all;
    this.decide = all.some(({ decides }) => decides === true);
    this.wait = all.some(
      ({ decides, waits, onGradients }) => decides === true || waits === true || onGradients !== undefined,
    );
    this.repeat = all.some(({ repeat }) => repeat !== undefined);
    this.#needReduction = all.some(
      ({ span, onGradients }) => span !== undefined || onGradients !== undefined,
    );
  }

  /** The states of the extensions that have a state, by name, for checkpoints. */
  get states(): JsonObject {
    const entries = this.#all.flatMap(({ name, state }) =>
      state === undefined ? [] : [[name, { ...state }] as const],
    );
    return Object.fromEntries(entries);
  }

  /**
   * Restores each extension's state from a checkpoint. An extension without a state in the checkpoint starts
   * with an empty state.
   *
   * @throws CheckpointError `MTL_CHECKPOINT_STATE`
   */
  restore({ state, path }: { readonly state: JsonObject; readonly path: string }): void {
    for (const extension of this.#all) {
      const own = state[extension.name];
      if (own !== undefined) extension.restore?.(own, path);
    }
  }

  beforeStep(iteration: number): void {
    for (const extension of this.#all) extension.beforeStep?.(iteration);
  }

  /** Runs `passes` once, wrapped by all extensions. The first extension is the outermost wrapper. */
  aroundPasses(iteration: number, passes: () => void): void {
    const surround = (inner: () => void, extension: TrainerExtension) => (): void => {
      if (extension.aroundPasses === undefined) inner();
      else extension.aroundPasses(iteration, inner);
    };
    this.#all.reduceRight(surround, passes)();
  }

  /** Runs a phase of a step once, wrapped by all extensions. The first extension is the outermost wrapper. */
  span<Result>(kind: StepSpan['kind'], body: () => Result): Result {
    const surround = (inner: () => Result, extension: TrainerExtension) => (): Result =>
      extension.span === undefined ? inner() : extension.span({ kind }, inner);
    return this.#all.reduceRight(surround, body)();
  }

  /** Calls the extensions that read gradients, after the gradients are reduced. */
  async onGradients(optimizer: ModelOptimizer, iteration: number): Promise<void> {
    if (!this.#needReduction) return;
    this.span('reduce', () => optimizer.reduceGradients());
    for (const extension of this.#all) await extension.onGradients?.(optimizer, iteration);
  }

  isSuspicious(step: Pick<MeasuredStep, 'loss' | 'gradientNorm'>): boolean {
    return this.#all.some((extension) => extension.isSuspicious?.(step) === true);
  }

  /**
   * Returns the results with which a step continues. Each extension may replace the results of the previous
   * extension.
   */
  async repeated<Step extends ComputedStep>(request: RerunRequest<Step>) {
    let step = request.first;
    const events: TrainingEvent[] = [];
    for (const extension of this.#all) {
      const repeated = await extension.repeat?.({ ...request, first: step });
      if (repeated === undefined) continue;
      step = repeated.step;
      events.push(...repeated.events);
    }
    return { step, events };
  }

  /** Returns the decision about a step. The first extension that rejects the update decides. */
  judge(step: MeasuredStep): StepVerdict {
    const verdicts = this.#all.flatMap((extension) => extension.judge?.(step) ?? []);
    const { action } = verdicts.find((verdict) => verdict.action !== 'update') ?? { action: 'update' };
    return { action, events: verdicts.flatMap(({ events }) => events) };
  }

  afterStep(metrics: StepMetrics): readonly TrainingEvent[] {
    return this.#all.flatMap((extension) => extension.afterStep?.(metrics) ?? []);
  }

  afterEvaluation(evaluated: EvaluatedStep): void {
    for (const extension of this.#all) extension.afterEvaluation?.(evaluated);
  }

  resume(): void {
    for (const extension of this.#all) extension.resume?.();
  }

  pause(): void {
    for (const extension of this.#all) extension.pause?.();
  }

  end(iteration: number): readonly TrainingEvent[] {
    return this.#all.flatMap((extension) => extension.end?.(iteration) ?? []);
  }

  /** The reason for ending the run, from the first extension that ends it; undefined if none does. */
  get endsRun(): string | undefined {
    return this.#all.find(({ endsRun }) => endsRun !== undefined)?.endsRun;
  }
}
