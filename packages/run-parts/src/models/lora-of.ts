import { type LoraConfiguration, loraSpecificationOf } from '@mtl/formats';
import { isAdapter } from '@mtl/formats/internal';
import type {
  ExpertVariants,
  GptModelConfiguration,
  LoraSpecification,
  TransformerConfiguration,
} from '@mtl/models';
import { gptParameters } from '@mtl/models/internal';

type MaybeAdapted = { readonly lora?: LoraConfiguration | undefined };

/** Returns the adapters that a run trains, in its model; undefined where it trains the model itself. */
export function loraOf(
  { lora }: MaybeAdapted,
  model: TransformerConfiguration,
): LoraSpecification | undefined {
  // the flags are those of a GPT
  return lora && loraSpecificationOf(lora, model as GptModelConfiguration);
}

/** Returns the number of parameters of the adapters of a run; undefined where it trains the model itself. */
export function numAdapterParameters(
  configuration: MaybeAdapted,
  model: TransformerConfiguration,
): number | undefined {
  return adaptersOf(configuration, model)?.reduce((sum, { size }) => sum + size, 0);
}

/** Returns how many of them a token is multiplied with: it passes only the experts that it is sent to. */
export function numActiveAdapterParameters(
  configuration: MaybeAdapted,
  model: TransformerConfiguration & ExpertVariants,
): number | undefined {
  const { numExperts = 1, moeRouterTopk = 2 } = model;
  return adaptersOf(configuration, model)?.reduce(
    (sum, { size, placement }) =>
      sum + (placement.view === 'expert' ? (size / numExperts) * moeRouterTopk : size),
    0,
  );
}

function adaptersOf(configuration: MaybeAdapted, model: TransformerConfiguration) {
  const lora = loraOf(configuration, model);
  if (lora === undefined) return undefined;
  return gptParameters(model as GptModelConfiguration, { lora }).filter(({ name }) => isAdapter(name));
}
