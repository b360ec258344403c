import type { Budget } from './budget.js';
import type { CallArguments, Value } from './values.js';

/** What the functions of a template share while it is rendered. */
export interface Runtime {
  readonly budget: Budget;
  /** Whether a list or dict has no text of its own: what it is printed as would be learnt. */
  readonly hasNoText: (value: object) => boolean;
  /** `value.name` */
  readonly attribute: (value: Value, name: string) => Value;
  /** `value[key]` */
  readonly item: (value: Value, key: Value) => Value;
  readonly callFilter: (name: string, value: Value, args: CallArguments) => Value;
  readonly callTest: (name: string, value: Value, args: CallArguments) => boolean;
}
