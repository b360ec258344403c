import {
  type GptModelConfiguration,
  gptParameters,
  isAdapter,
  type LoraConfiguration,
  type LoraSpecification,
  loraSpecificationOf,
  type TransformerConfiguration,
} from '@mtl/models';

type MaybeAdapted = { readonly lora?: LoraConfiguration | undefined };

/** The adapters that a run trains, in its model; undefined where it trains the model itself. */
export function loraOf(
  { lora }: MaybeAdapted,
  model: TransformerConfiguration,
): LoraSpecification | undefined {
  // the flags are those of a GPT
  return lora && loraSpecificationOf(lora, model as GptModelConfiguration);
}

/** How many parameters the adapters of a run have; undefined where it trains the model itself. */
export function numAdapterParameters(
  configuration: MaybeAdapted,
  model: TransformerConfiguration,
): number | undefined {
  const lora = loraOf(configuration, model);
  if (lora === undefined) return undefined;
  return gptParameters(model as GptModelConfiguration, { lora })
    .filter(({ name }) => isAdapter(name))
    .reduce((sum, { size }) => sum + size, 0);
}
