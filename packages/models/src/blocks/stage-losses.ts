import { type Tape, Variable } from '@mtl/autograd';
import { UsageError } from '@mtl/errors';
import { type Device, Tensor } from '@mtl/kernels';
import type { LossFactors, StageLoss, Upload } from '@mtl/pipeline';

/** A loss on a tape. `losses` contains its values, and `weights` a factor for the gradient of each value. */
export interface LossVariables {
  readonly name: string;
  readonly losses: Variable;
  readonly weights: Variable;
}

/** Returns flat views of the loss for the caller of a stage. */
export function asStageLoss({ name, losses, weights }: LossVariables): StageLoss {
  const flat = ({ tensor }: Variable): Tensor => tensor.view({ shape: [tensor.size] });
  const views = { losses: flat(losses), weights: flat(weights) };
  return {
    name,
    ...views,
    dispose: () => {
      for (const view of Object.values(views)) view.dispose();
    },
  };
}

/**
 * Returns the factor for the loss `name`, which a stage computes.
 * @throws UsageError MTL_STAGE if the caller has not given a factor
 */
export function findLossFactor(lossFactors: LossFactors, name: string): number {
  const factor = lossFactors[name];
  if (factor !== undefined) return factor;
  throw new UsageError('MTL_STAGE', `no factor for the loss ${name}`, {
    expected: `lossFactors with ${name}: the loss scale divided by the global batch's count of what the loss is averaged over`,
    details: { name, given: Object.keys(lossFactors) },
  });
}

interface LayerLossesOptions {
  /** The names of the losses that the layers declare (see `Sublayer.losses`). */
  readonly names: ReadonlySet<string>;
  readonly lossFactors: LossFactors;
  readonly device: Device;
  readonly upload?: Upload | undefined;
}

/** Collects the losses that a stage's layers compute for one micro-batch. */
export class LayerLosses {
  readonly #factors: ReadonlyMap<string, Variable>;
  #made: StageLoss[] = [];
  #isForward = true;

  /** @throws UsageError MTL_STAGE if a factor is missing */
  constructor({ names, lossFactors, device, upload = Tensor.from }: LayerLossesOptions) {
    const factors = [...names].map((name) => [name, findLossFactor(lossFactors, name)] as const);
    this.#factors = new Map(
      factors.map(([name, factor]) => {
        const tensor = upload(Float32Array.of(factor), { shape: [1], dtype: 'float32', device });
        return [name, new Variable(tensor, { requiresGradient: false })];
      }),
    );
  }

  /**
   * Returns the factor for a loss in the total loss, float32 [1]. It includes the loss scale.
   * @throws UsageError MTL_STAGE if no sublayer declares `name`
   */
  factor(name: string): Variable {
    const factor = this.#factors.get(name);
    if (factor !== undefined) return factor;
    throw new UsageError('MTL_STAGE', `a layer makes the loss ${name}, which it does not declare`, {
      expected: `one of the losses of its sublayers: ${[...this.#factors.keys()].join(', ') || 'none'}`,
      remedy: `add ${name} to the losses of the sublayer (Sublayer.losses)`,
    });
  }

  /**
   * Adds a loss to the total loss, and to the metric that has its name. Losses with the same name are summed.
   * The loss contains either one value per token of the micro-batch, equal on all tensor-parallel ranks, or a
   * sum. Its backward pass must return gradients that include the weights.
   *
   * @throws UsageError MTL_STAGE if no sublayer declares the loss's name
   */
  add(tape: Tape, loss: LossVariables): void {
    this.factor(loss.name);
    tape.addLoss(loss.losses);
    // recomputation in the backward pass computes the loss again, which must not count
    if (this.#isForward) this.#made.push(asStageLoss(loss));
  }

  /** Ends the forward pass. Metrics ignore losses that layers add from now on. */
  endForward(): void {
    this.#isForward = false;
  }

  /** Returns the losses of the forward pass. The caller must dispose of the losses. */
  take(): readonly StageLoss[] {
    const made = this.#made;
    this.#made = [];
    return made;
  }

  release(): void {
    for (const loss of this.take()) loss.dispose();
    for (const factor of this.#factors.values()) factor.release();
  }
}
