import type { TransformerConfiguration } from '@mtl/models';
import { optionName } from '../flags/option-names.js';
import type { ArchitectureField, ModelKind } from './architecture-field.js';
import { architectureFields } from './architecture-fields.js';
import { expertFields } from './expert-fields.js';

type Fields = typeof architectureFields;

/** The names of flags for the architecture. */
export type ArchitectureFlag = keyof Fields;

type FlagsOf<Name extends ArchitectureFlag> = { readonly [Flag in Name]: Fields[Flag]['flag'] };
type BertFlag = {
  [Flag in ArchitectureFlag]: Fields[Flag] extends { readonly kind: 'bert' } ? Flag : never;
}[ArchitectureFlag];
type ExpertFlag = keyof typeof expertFields;

/** The fields, with the defaults of facts that the table does not state. */
const entries: ReadonlyArray<readonly [ArchitectureFlag, ArchitectureField]> = Object.entries(
  architectureFields,
).map(([name, facts]) => [name as ArchitectureFlag, { key: optionName(name), decides: 'weights', ...facts }]);

/** Returns the schemas of the flags for BERT, for experts, or for the other fields. */
export function schemasOfArchitecture(of: 'bert'): FlagsOf<BertFlag>;
export function schemasOfArchitecture(of: 'experts'): FlagsOf<ExpertFlag>;
export function schemasOfArchitecture(
  of: 'others',
): FlagsOf<Exclude<ArchitectureFlag, BertFlag | ExpertFlag>>;
export function schemasOfArchitecture(of: 'bert' | 'experts' | 'others'): object {
  const chooseGroup = (name: string, { kind }: ArchitectureField) =>
    kind === 'bert' ? 'bert' : Object.hasOwn(expertFields, name) ? 'experts' : 'others';
  const chosen = entries.filter(([name, field]) => chooseGroup(name, field) === of);
  return Object.fromEntries(chosen.map(([name, { flag }]) => [name, flag]));
}

/**
 * Returns the fields that models of the given kind have, with their flags. Default: the fields of all kinds.
 */
export function listFields(kind?: ModelKind): ReadonlyArray<readonly [ArchitectureFlag, ArchitectureField]> {
  return kind === undefined
    ? entries
    : entries.filter(([, field]) => field.kind === undefined || field.kind === kind);
}

/** Returns the flags, in the order of help, whose architecture fields pass the test `is`. */
export function architectureFlagNames(
  is: (field: ArchitectureField) => boolean,
): readonly ArchitectureFlag[] {
  return entries.filter(([, field]) => is(field)).map(([name]) => name);
}

/** Returns the values of a model's fields that have any of the given effects, for example `learning`. */
export function pickFields(
  model: TransformerConfiguration,
  decides: ReadonlyArray<ArchitectureField['decides']>,
): Partial<TransformerConfiguration> {
  const keys = listFields().flatMap(([, field]) => (decides.includes(field.decides) ? [field.key] : []));
  return Object.fromEntries(Object.entries(model).filter(([key]) => keys.includes(key)));
}
