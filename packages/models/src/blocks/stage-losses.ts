import { type Tape, Variable } from '@mtl/autograd';
import { UsageError } from '@mtl/errors';
import { type Device, Tensor } from '@mtl/kernels';
import type { LossFactors, StageLoss, Upload } from '@mtl/pipeline';

/** A loss on a tape: its values, and a factor for the gradient of each value. */
export interface LossVariables {
  readonly name: string;
  readonly losses: Variable;
  readonly weights: Variable;
}

/** Returns the loss as flat views, for the caller of a stage. */
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
 * Returns the factor of a loss that a stage computes.
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
  /** The names of the losses that the layers declare (`Sublayer.losses`). */
  readonly names: ReadonlySet<string>;
  readonly lossFactors: LossFactors;
  readonly device: Device;
  readonly upload?: Upload | undefined;
}

/** Collects the losses that the layers of a stage compute for a micro-batch. */
export class LayerLosses {
  readonly #factors: ReadonlyMap<string, Variable>;
  #made: StageLoss[] = [];
  #isForward = true;

  /** @throws UsageError MTL_STAGE if the factor of a loss is missing */
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
   * Returns the factor of a loss in the total, float32 [1], including the loss scale.
   * @throws UsageError MTL_STAGE for a name that no sublayer declares
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
   * Adds a loss to the total, and to the metrics under its name. Losses with the same name are summed. The
   * values are either one per token of the micro-batch, equal on all tensor-parallel ranks, or a sum. The
   * backward pass of the loss must return gradients that include the weights.
   *
   * @throws UsageError MTL_STAGE for a name that no sublayer declares
   */
  add(tape: Tape, loss: LossVariables): void {
    this.factor(loss.name);
    tape.addLoss(loss.losses);
    // recomputation in backward computes the loss a second time, which must not count
    if (this.#isForward) this.#made.push(asStageLoss(loss));
  }

  /** Ends the forward pass: losses that layers add from now on are ignored. */
  endForward(): void {
    this.#isForward = false;
  }

  /** Returns the losses of the forward pass. The caller disposes of the losses. */
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
