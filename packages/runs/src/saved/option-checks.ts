import { choiceOption, functionOption, type OptionCheck, wholeNumberOption } from '@mtl/errors/options';
import type { WritableDtype } from '@mtl/formats';

const storedDtypes: Readonly<Record<WritableDtype, true>> = { F32: true, BF16: true, F16: true };

/** Checks the dtype of stored weights. */
export const storedDtypeOption: OptionCheck<false> = choiceOption(Object.keys(storedDtypes));

/** Checks the iteration of a checkpoint. */
export const iterationOption: OptionCheck<false> = wholeNumberOption(0);

/** Checks a function that receives notices. */
export const noticesOption: OptionCheck<false> = functionOption;
