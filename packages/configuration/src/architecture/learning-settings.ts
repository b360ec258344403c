import type { ConfigurationJson } from '../saved/configuration-json.js';
import { fieldsOf } from './fields-of.js';

/** A setting of a run, by its flag. */
export interface LearningSetting {
  readonly flag: string;
  /** Undefined where an older version did not record it. */
  readonly valueIn: (resolved: ConfigurationJson['resolved']) => unknown;
}

/**
 * The parts of the architecture that decide how a model learns: what a resumed run may change, and reports.
 */
export const learningSettings: readonly LearningSetting[] = fieldsOf().flatMap(([flag, field]) => {
  const key = field.configurationKey ?? field.key;
  const valueIn = ({ model, bert }: ConfigurationJson['resolved']): unknown =>
    (({ ...model, ...bert }) as Readonly<Record<string, unknown>>)[key];
  return field.decides === 'learning' ? [{ flag, valueIn }] : [];
});
