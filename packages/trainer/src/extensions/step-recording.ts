import type { StepListener } from '@mtl/pipeline';
import type { TrainerExtension } from './trainer-extension.js';

/**
 * Returns an extension that records steps with the pipeline's recorder. Each recorded step ends before the
 * next step begins.
 */
export function stepRecording(listener: StepListener): TrainerExtension {
  return {
    name: 'profiler',
    waits: true,
    beforeStep: (iteration) => listener.beginStep(iteration),
    span: (part, body) => listener.span(part, body),
    afterStep: ({ iteration, isLeftOut }) => {
      if (isLeftOut !== true) listener.endStep(iteration);
      return [];
    },
  };
}
