import type { LogicalTensor } from '@mtl/layout';
import type { ExpertVariants } from '../experts/experts-specification.js';
import type { GptModelConfiguration } from './gpt-model.js';

const ofExperts = /\.mlp\.experts\.(linear_fc[12]\.(?:weight|bias))$/;
const ofRouter = /\.mlp\.router\./;

/**
 * Returns the name of the dense model's parameter from which the given parameter of a mixture of experts is
 * copied.
 *
 * @returns undefined for a router, which the dense model does not have
 */
export const findDenseName = (name: string): string | undefined =>
  ofRouter.test(name) ? undefined : name.replace(ofExperts, '.mlp.$1');

/** The names of all properties in `ExpertVariants`. A new property must be added here. */
const propertiesOfExperts = {
  numExperts: true,
  moeLayerFreq: true,
  moeFfnHiddenSize: true,
  moeRouterTopk: true,
  moeRouterScoreFunction: true,
  moeRouterPreSoftmax: true,
  moeRouterTopkScalingFactor: true,
  moeRouterNumGroups: true,
  moeRouterGroupTopk: true,
  moeRouterEnableExpertBias: true,
  moeRouterBiasUpdateRate: true,
  moeRouterLoadBalancingType: true,
  moeAuxLossCoeff: true,
  moeZLossCoeff: true,
  moeSharedExpertIntermediateSize: true,
  moeSharedExpertGate: true,
  moeExpertCapacityFactor: true,
  moeTokenDropPolicy: true,
  quickGeglu: false,
  gluLinearOffset: false,
  activationFuncClampValue: false,
} as const satisfies Record<keyof ExpertVariants, boolean>;

const isOfExperts = (key: string): boolean =>
  Object.entries(propertiesOfExperts).some(([name, isOf]) => isOf && name === key);

/** Returns the dense model from which the experts of `model` can be initialized. */
export const makeDenseModel = (model: GptModelConfiguration): GptModelConfiguration =>
  Object.fromEntries(
    Object.entries(model).filter(([key]) => !isOfExperts(key)),
  ) as unknown as GptModelConfiguration;

/** Returns a model's expert properties (see `ExpertVariants`). */
export const pickExpertVariants = (model: GptModelConfiguration): ExpertVariants =>
  Object.fromEntries(Object.entries(model).filter(([key]) => isOfExperts(key)));

/**
 * Returns the tensors of a mixture of experts under the dense model's names, so that a dense checkpoint can
 * be loaded into them. The values of a feed-forward network are written to every expert of its layer
 * (Komatsuzaki et al. 2023). Routers are omitted and keep their values.
 */
export function upcycledTensors(tensors: readonly LogicalTensor[]): LogicalTensor[] {
  return tensors.flatMap((tensor) => {
    const name = findDenseName(tensor.name);
    if (name === undefined) return [];
    return name === tensor.name ? [tensor] : [copiedToExperts(name, tensor)];
  });
}

function copiedToExperts(name: string, tensor: LogicalTensor): LogicalTensor {
  const { dtype, globalShape, slices } = tensor;
  const [{ start, end }] = slices as [LogicalTensor['slices'][number]];
  return {
    name,
    dtype,
    globalShape: globalShape.slice(1),
    slices: slices.slice(1),
    // the tensor is only loaded, never saved
    read: () => new Uint8Array(0),
    write: async (bytes) => {
      const all = new Uint8Array(bytes.length * (end - start));
      for (let expert = 0; expert < end - start; expert++) all.set(bytes, expert * bytes.length);
      await tensor.write(all);
    },
  };
}
