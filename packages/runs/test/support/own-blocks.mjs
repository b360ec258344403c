import { tanh } from '@mtl/autograd';
import { ActivatedFeedForward, elementwiseActivation, feedForwards } from '@mtl/models';

feedForwards.register('tanh', (options) => new ActivatedFeedForward(options, elementwiseActivation(tanh)));

/** Every second layer has a wider network, with tanh, and sees a window of seven positions. */
export default ({ layer, standard }) =>
  layer % 2 === 0
    ? standard
    : {
        ...standard,
        attention: { ...standard.attention, windowSize: 6 },
        feedForward: { kind: 'tanh', ffnHiddenSize: 2 * standard.feedForward.ffnHiddenSize, bias: false },
      };
