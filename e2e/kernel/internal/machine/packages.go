package machine

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// ErrMissing is the reason that no kernel can be started here.
var ErrMissing = errors.New("not to be had here")

// Kernel returns the path of a Linux kernel of a version such as "6.1", from
// Debian's packages for machines in a cloud: what a virtual machine needs is
// built in, so that no module has to be loaded. The package is unpacked and not
// installed. It is kept from one run to the next.
func Kernel(version string) (path string, err error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	directory := filepath.Join(cache, "observer-kernels")
	if err := os.MkdirAll(directory, 0o755); err != nil {
		return "", err
	}
	apt := apt{}
	names, err := apt.kernels(version)
	if err != nil {
		return "", err
	}
	if len(names) == 0 {
		// Another release of the distribution may have it, from the same server.
		if err := apt.use("trixie"); err != nil {
			return "", err
		}
		defer apt.close()
		if names, err = apt.kernels(version); err != nil {
			return "", err
		}
	}
	for _, name := range names {
		path := filepath.Join(directory, name)
		if _, err := os.Stat(path); err == nil {
			return path, nil
		}
	}
	failures := fmt.Errorf("a package with Linux %s: %w", version, ErrMissing)
	for _, name := range names[:min(3, len(names))] { // the list may be older than the server
		path := filepath.Join(directory, name)
		err := apt.unpack(name, path)
		if err == nil {
			return path, nil
		}
		failures = errors.Join(failures, err)
	}
	return "", failures
}

// apt runs Debian's package tools with options.
type apt struct {
	options   []string
	temporary string
}

func (a *apt) run(directory string, command ...string) ([]byte, error) {
	if _, err := exec.LookPath(command[0]); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrMissing, err)
	}
	cmd := exec.Command(command[0], append(slices.Clone(a.options), command[1:]...)...)
	cmd.Dir = directory
	output, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", strings.Join(command, " "), err)
	}
	return output, nil
}

// kernels returns the names of the packages with a version, newest first.
func (a *apt) kernels(version string) ([]string, error) {
	prefix := "linux-image-" + version + "."
	output, err := a.run("", "apt-cache", "pkgnames", prefix)
	if err != nil {
		return nil, err
	}
	var names []string
	for name := range strings.FieldsSeq(string(output)) {
		if strings.HasPrefix(name, prefix) && strings.HasSuffix(name, "-cloud-amd64") {
			names = append(names, name)
		}
	}
	slices.SortFunc(names, func(a, b string) int { return slices.Compare(numbers(b), numbers(a)) })
	return names, nil
}

var digits = regexp.MustCompile(`\d+`)

func numbers(name string) (all []int) {
	for _, text := range digits.FindAllString(name, -1) {
		number, _ := strconv.Atoi(text)
		all = append(all, number)
	}
	return all
}

// debianKeys is where Debian keeps the keys of its releases, later ones too.
const debianKeys = "/usr/share/keyrings/debian-archive-keyring.gpg"

// use takes the packages of another release, from the server that this system
// is set up with, without touching what this system has.
func (a *apt) use(release string) error {
	output, err := a.run("", "apt-get", "indextargets", "--format", "$(SITE) $(ORIGIN) $(COMPONENT)", "Created-By: Packages")
	if err != nil {
		return err
	}
	source := ""
	for line := range strings.Lines(string(output)) {
		fields := strings.Fields(line)
		if len(fields) < 3 || fields[1] != "Debian" || fields[2] != "main" || strings.Contains(fields[0], "security") {
			continue
		}
		option := ""
		if _, err := os.Stat(debianKeys); err == nil {
			option = "[signed-by=" + debianKeys + "] "
		}
		source = fmt.Sprintf("deb %s%s %s main\n", option, fields[0], release)
		break
	}
	if source == "" {
		return fmt.Errorf("a source of Debian's packages: %w", ErrMissing)
	}
	if a.temporary, err = os.MkdirTemp("", "observer-apt-"); err != nil {
		return err
	}
	list := filepath.Join(a.temporary, "sources.list")
	if err := os.MkdirAll(filepath.Join(a.temporary, "lists", "partial"), 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(list, []byte(source), 0o644); err != nil {
		return err
	}
	a.options = []string{
		"-o", "Dir::Etc::sourcelist=" + list, "-o", "Dir::Etc::sourceparts=-",
		"-o", "Dir::State::lists=" + filepath.Join(a.temporary, "lists"),
		"-o", "Dir::Cache=" + a.temporary, "-o", "APT::Sandbox::User=root",
	}
	if _, err := a.run("", "apt-get", "-qq", "update"); err != nil {
		return errors.Join(fmt.Errorf("packages of %s: %w", release, ErrMissing), err)
	}
	return nil
}

func (a *apt) close() {
	if a.temporary != "" {
		_ = os.RemoveAll(a.temporary) // in the directory for temporary files
	}
}

// unpack takes the kernel out of a package and leaves it at path.
func (a *apt) unpack(name, path string) error {
	directory, err := os.MkdirTemp(filepath.Dir(path), "unpack-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(directory)
	if _, err := a.run(directory, "apt-get", "-qq", "-o", "APT::Sandbox::User=root", "download", name); err != nil {
		return err
	}
	packages, err := filepath.Glob(filepath.Join(directory, "*.deb"))
	if err != nil || len(packages) != 1 {
		return fmt.Errorf("%s: %d packages came", name, len(packages))
	}
	unpacking := exec.Command("dpkg-deb", "--fsys-tarfile", packages[0])
	output, err := unpacking.StdoutPipe()
	if err != nil {
		return err
	}
	if err := unpacking.Start(); err != nil {
		return err
	}
	partial := filepath.Join(directory, "kernel")
	kernelErr := takeKernel(output, partial)
	_, drainErr := io.Copy(io.Discard, output)
	if err := errors.Join(kernelErr, drainErr, unpacking.Wait()); err != nil {
		return fmt.Errorf("unpacking %s: %w", name, err)
	}
	return os.Rename(partial, path)
}

// takeKernel writes the one kernel in an archive to path.
func takeKernel(archive io.Reader, path string) error {
	for reader := tar.NewReader(archive); ; {
		header, err := reader.Next()
		if err == io.EOF {
			return errors.New("no boot/vmlinuz in the package")
		}
		if err != nil {
			return err
		}
		if !strings.Contains(header.Name, "boot/vmlinuz-") {
			continue
		}
		kernel, err := os.Create(path)
		if err != nil {
			return err
		}
		_, err = io.Copy(kernel, reader)
		return errors.Join(err, kernel.Close())
	}
}
