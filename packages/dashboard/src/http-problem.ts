/** A request that is answered with an error; `message` is shown to the one who sent it. */
export class HttpProblem extends Error {
  readonly status: 400 | 403 | 404 | 405 | 500 | 503;

  constructor(status: HttpProblem['status'], message: string) {
    super(message);
    this.status = status;
  }
}
