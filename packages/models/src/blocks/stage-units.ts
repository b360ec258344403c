import { type Parameter, ParameterUnit } from '@mtl/autograd';

/** The parameters that a stage uses together. */
export interface StageUnits {
  readonly embedding: ParameterUnit | undefined;
  readonly blocks: readonly ParameterUnit[];
  /** What comes after the layers. */
  readonly head: ParameterUnit | undefined;
}

/** The units of a stage. Of `all` parameters, the head has those that are in no other one. */
export function stageUnits({
  embedding,
  blocks,
  hasHead,
  all,
  tied,
}: {
  readonly embedding: readonly Parameter[] | undefined;
  readonly blocks: readonly (readonly Parameter[])[];
  readonly hasHead: boolean;
  readonly all: readonly Parameter[];
  /** Those of the embedding that the head uses as well. */
  readonly tied: readonly Parameter[];
}): StageUnits {
  const before = new Set([...(embedding ?? []), ...blocks.flat()]);
  const head = new Set([...all.filter((parameter) => !before.has(parameter)), ...tied]);
  return {
    embedding: embedding && new ParameterUnit(embedding),
    blocks: blocks.map((parameters) => new ParameterUnit(parameters)),
    head: hasHead ? new ParameterUnit([...head]) : undefined,
  };
}
