import { scheduleNames } from '@mtl/pipeline/schedules';
import type { ModelKind } from '../architecture/architecture-field.js';
import { presetsOf } from '../presets/presets.js';
import { describeFlag } from '../schema/describe-flag.js';
import { factsOf, flagNames } from '../schema/flag-schema.js';
import { modelOfFlag } from '../schema/model-of-flag.js';

/** A flag of a training program, as programs that complete command lines need it. */
export interface FlagOfProgram {
  /** Without dashes. */
  readonly name: string;
  /** A text about what it does. */
  readonly text: string;
  /** The placeholder of its value; empty for a switch. */
  readonly placeholder: string;
  /** Values that it takes by name; a flag may take others, too. */
  readonly names: readonly string[];
}

/** Returns all flags of the program that trains a model, in the order of its help. */
export function flagsOfProgram(model: ModelKind): readonly FlagOfProgram[] {
  const presets = [...Object.keys(presetsOf(model).presets), 'none'];
  const own: readonly FlagOfProgram[] = [
    { name: 'preset', text: 'A named set of flags.', placeholder: 'NAME', names: presets },
    { name: 'config', text: 'Flags from a YAML or JSON file.', placeholder: 'FILE', names: [] },
    { name: 'debug', text: 'Prints errors with their stack.', placeholder: '', names: [] },
    { name: 'help', text: 'Prints all flags.', placeholder: '', names: [] },
  ];
  const flags = flagNames.filter((name) => [undefined, model].includes(modelOfFlag(name)));
  return [
    ...own,
    ...flags.map((name) => {
      const { kind, placeholder } = factsOf(name);
      const choices = kind === 'choice' ? placeholder.split('|') : [];
      const names = name === 'pipeline-schedule' ? scheduleNames : choices;
      return { name, text: describeFlag(name).text, placeholder, names };
    }),
  ];
}
