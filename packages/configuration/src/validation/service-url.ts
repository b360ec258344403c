import { ConfigurationError } from '@mtl/errors';

/**
 * The URL of a service without slashes at its end.
 *
 * @throws ConfigurationError MTL_SERVICE_URL for another protocol than HTTP, and for one that contains a
 *   password: it would be written to the run folder
 */
export function serviceUrl(
  given: string,
  { name, remedy }: { readonly name: string; readonly remedy: string },
): string {
  const expected = 'a URL such as https://host or http://host:5000, without a user and a password';
  if (!URL.canParse(given) || !/^https?:$/.test(new URL(given).protocol)) {
    // what has an @ may contain a password
    const shown = given.includes('@') ? '(not shown)' : given;
    throw new ConfigurationError('MTL_SERVICE_URL', `${name} ${shown} is not the URL of a service`, {
      expected,
    });
  }
  const url = new URL(given);
  if (url.username !== '' || url.password !== '') {
    throw new ConfigurationError(
      'MTL_SERVICE_URL',
      `${name} ${url.protocol}//...@${url.host} contains a user`,
      {
        expected,
        remedy,
      },
    );
  }
  return given.replace(/\/+$/, '');
}
