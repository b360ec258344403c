import type { Variable } from '@mtl/autograd';
import { UsageError } from '@mtl/errors';
import type { Tensor } from '@mtl/kernels';
import type { LossFactors, StageLoss } from '@mtl/pipeline';

/** A loss on a tape: its values and the factors of their gradients, of as many elements. */
export interface LossVariables {
  readonly name: string;
  readonly losses: Variable;
  readonly weights: Variable;
}

/** The loss as the caller of a stage takes it: flat views. */
export function stageLoss({ name, losses, weights }: LossVariables): StageLoss {
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
 * The factor of a loss that a stage makes.
 * @throws UsageError MTL_STAGE where the caller gives none
 */
export function lossFactorOf(lossFactors: LossFactors, name: string): number {
  const factor = lossFactors[name];
  if (factor !== undefined) return factor;
  throw new UsageError('MTL_STAGE', `no factor for the loss ${name}`, {
    expected: `lossFactors with ${name}: the loss scale over what the loss is a mean over in the global batch`,
    details: { name, given: Object.keys(lossFactors) },
  });
}
