# Completion of stencil for bash, printed by stencil --help=bash. To use it: source this file.
_stencil() {
  local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]} key= keys options values=
  options='--help --version --example --dry-run --measure --restart --benchmark --verify-gradient --report --quiet --verbose'
  # bash takes words apart at =
  if [[ $word == = ]]; then key=$before word=; fi
  if [[ $before == = ]]; then key=${COMP_WORDS[COMP_CWORD - 2]}; fi
  keys='
    grid.nx= grid.ny= grid.nz= grid.dx= grid.dy= grid.dz= grid.origin=
    equation.type= equation.space_order=
    time.end_time= time.steps= time.dt= time.cfl= time.dispersion= time.allow_unstable= time.max_seconds=
    jacobi.center= jacobi.x= jacobi.y= jacobi.z=
    medium.diffusivity= medium.velocity= medium.density= medium.quality= medium.absorption= medium.averaging= medium.absorption_power= medium.reference_frequency= medium.absorption_band= medium.mechanisms=
    survey.shots= survey.ranks_per_shot= survey.at_once= survey.on_stop=
    initial.u= initial.previous= initial.center= initial.width= initial.amplitude= initial.seed=
    boundary.all= boundary.x= boundary.y= boundary.z= boundary.x_lo= boundary.x_hi= boundary.y_lo= boundary.y_hi= boundary.z_lo= boundary.z_hi= boundary.value= boundary.width= boundary.outside= boundary.velocity=
    source.1.position= source.1.wavelet= source.1.f0= source.1.t0= source.1.amplitude=
    sources.positions= sources.signals= sources.mode= sources.strength= sources.interpolation=
    receivers.positions= receivers.line= receivers.points= receivers.every= receivers.interpolation=
    gradient.observed= gradient.adjoint_source= gradient.weights= gradient.missing= gradient.of= gradient.misfit= gradient.signals= gradient.initial= gradient.image= gradient.memory= gradient.host_memory= gradient.file_memory= gradient.path=
    output.path= output.name= output.every= output.final= output.replace= output.box= output.stride= output.compress=
    maps.quantities= maps.dft= maps.from= maps.until= maps.every=
    checkpoint.path= checkpoint.every_steps= checkpoint.every_seconds= checkpoint.keep=
    parallel.transport= parallel.overlap= parallel.schedule= parallel.io= parallel.watchdog_seconds=
    device.backend= device.kernel= device.threads=
    report.file= report.progress= report.check_every= report.histogram='
  case $key in
    equation.type) values='jacobi heat wave' ;;
    equation.space_order) values='2 4 6 8' ;;
    time.dispersion) values='removed kept' ;;
    time.allow_unstable) values='on off true false yes no' ;;
    medium.density) values='none' ;;
    medium.quality) values='none' ;;
    medium.absorption) values='none' ;;
    medium.averaging) values='on off true false yes no' ;;
    survey.on_stop) values='drop finish checkpoint' ;;
    initial.u) values='zero gaussian random' ;;
    initial.previous) values='rest' ;;
    boundary.all) values='fixed dirichlet neumann periodic absorbing' ;;
    boundary.x) values='fixed dirichlet neumann periodic absorbing' ;;
    boundary.y) values='fixed dirichlet neumann periodic absorbing' ;;
    boundary.z) values='fixed dirichlet neumann periodic absorbing' ;;
    boundary.x_lo) values='fixed dirichlet neumann periodic absorbing' ;;
    boundary.x_hi) values='fixed dirichlet neumann periodic absorbing' ;;
    boundary.y_lo) values='fixed dirichlet neumann periodic absorbing' ;;
    boundary.y_hi) values='fixed dirichlet neumann periodic absorbing' ;;
    boundary.z_lo) values='fixed dirichlet neumann periodic absorbing' ;;
    boundary.z_hi) values='fixed dirichlet neumann periodic absorbing' ;;
    boundary.outside) values='on off true false yes no' ;;
    source.*.wavelet) values='ricker gaussian' ;;
    sources.mode) values='add impose' ;;
    sources.strength) values='node volume' ;;
    sources.interpolation) values='sinc linear' ;;
    receivers.interpolation) values='sinc linear' ;;
    gradient.missing) values='error nan' ;;
    gradient.of) values='velocity' ;;
    gradient.misfit) values='l2' ;;
    gradient.signals) values='on off true false yes no' ;;
    gradient.initial) values='on off true false yes no' ;;
    gradient.image) values='on off true false yes no' ;;
    output.final) values='on off true false yes no' ;;
    output.replace) values='on off true false yes no' ;;
    parallel.transport) values='auto sendrecv chunked shared cuda_aware ipc nccl' ;;
    parallel.overlap) values='on off true false yes no' ;;
    parallel.schedule) values='steps persistent' ;;
    parallel.io) values='auto collective gather server' ;;
    device.backend) values='auto cuda host' ;;
    report.progress) values='auto on off' ;;
  esac
  if [[ $key ]]; then COMPREPLY=($(compgen -W "$values" -- "$word"))
  elif [[ $word == -* ]]; then COMPREPLY=($(compgen -W "$options" -- "$word"))
  else COMPREPLY=($(compgen -f -X '!*.ini' -- "$word") $(compgen -W "$keys" -- "$word"))
  fi
  if [[ ${COMPREPLY[0]} == *= ]]; then compopt -o nospace 2>/dev/null; fi
}
complete -o default -F _stencil stencil
