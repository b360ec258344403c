import {
  functionOption,
  listOption,
  type OptionCheck,
  objectOption,
  required,
  switchOption,
  textOption,
} from '@mtl/errors/options';

/** Checks the stream to which a run writes. */
export const streamOption: OptionCheck<false> = objectOption('a stream: an object with a method write', {
  write: required(functionOption),
});

const hooks = [
  ...['restore', 'beforeStep', 'aroundPasses', 'onGradients', 'span', 'isSuspicious', 'repeat', 'judge'],
  ...['afterStep', 'afterEvaluation', 'resume', 'pause', 'end'],
];

/** Checks the extensions of the training loop. */
export const extensionsOption: OptionCheck<false> = listOption(
  objectOption('an extension of the training loop: an object with a name and methods of the steps', {
    name: required(textOption),
    decides: switchOption,
    waits: switchOption,
    ...Object.fromEntries(hooks.map((name) => [name, functionOption])),
  }),
  { what: 'an array of extensions of the training loop' },
);

/** Checks the reporters of a run's steps. */
export const reportersOption: OptionCheck<false> = listOption(
  objectOption('a reporter: an object with methods for what it is told', {
    step: functionOption,
    validation: functionOption,
    event: functionOption,
    message: functionOption,
  }),
  { what: 'an array of reporters' },
);
