import type { Runtime } from './runtime.js';
import type { CallArguments, Value } from './values.js';

/** `value | name(args)` */
export type Filter = (value: Value, args: CallArguments, runtime: Runtime) => Value;
