import { type OptionCheck, objectOption, optionThat, required, textOption } from '@mtl/errors/options';

/** Checks a profile, which consists of a machine's profile and a program's profile. */
export const profileOption: OptionCheck<false> = objectOption('a profile, as openProfile returns it', {
  name: required(textOption),
  hardware: required(objectOption('the profile of a machine')),
  software: required(objectOption('the profile of a program')),
});

/** Checks a process's memory in bytes. */
export const bytesOption: OptionCheck<false> = optionThat(
  'a number of bytes above 0',
  (value) => typeof value === 'number' && value > 0,
);
