// Judges an OLM bundle and a file-based catalog with the code of Operator Framework itself.
//
//	olm bundle FOLDER         the checks of `opm alpha bundle validate` and of `operator-sdk bundle validate`
//	olm catalog FOLDER        the checks of `opm validate`
//	olm render FOLDER IMAGE   prints the bundle as `opm render` writes it into a catalog, as JSON
//	olm definitions           prints the definitions of OLM's own kinds
//	olm serve FOLDER CACHE    serves the catalog as `opm serve` does, and prints the address, of 127.0.0.1. CACHE is an empty folder
//
// It prints each error and each warning on a line, and ends with 1 if there is an error.
package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"text/template"

	"github.com/operator-framework/api/crds"
	"github.com/operator-framework/api/pkg/manifests"
	"github.com/operator-framework/api/pkg/validation"
	interfaces "github.com/operator-framework/api/pkg/validation/interfaces"
	"github.com/operator-framework/operator-registry/alpha/action"
	"github.com/operator-framework/operator-registry/alpha/action/migrations"
	"github.com/operator-framework/operator-registry/alpha/declcfg"
	"github.com/operator-framework/operator-registry/pkg/api"
	"github.com/operator-framework/operator-registry/pkg/cache"
	"github.com/operator-framework/operator-registry/pkg/lib/bundle"
	"github.com/operator-framework/operator-registry/pkg/server"
	"github.com/sirupsen/logrus"
	"google.golang.org/grpc"
	health "google.golang.org/grpc/health/grpc_health_v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

func main() {
	arguments := append(os.Args[1:], "", "", "")
	var failed bool
	var err error
	switch arguments[0] {
	case "bundle":
		failed, err = judgeBundle(arguments[1])
	case "catalog":
		err = judgeCatalog(arguments[1])
	case "render":
		err = render(arguments[1], arguments[2])
	case "definitions":
		err = printDefinitions()
	case "serve":
		err = serve(arguments[1], arguments[2])
	default:
		err = fmt.Errorf("usage: olm bundle FOLDER | catalog FOLDER | render FOLDER IMAGE | definitions | serve FOLDER CACHE")
	}
	if err != nil {
		fmt.Println("error:", err)
	}
	if err != nil || failed {
		os.Exit(1)
	}
}

func judgeBundle(folder string) (failed bool, err error) {
	logger := logrus.New()
	logger.SetOutput(io.Discard)
	validator := bundle.NewImageValidator(nil, logrus.NewEntry(logger))
	if err := validator.ValidateBundleFormat(folder); err != nil {
		return true, err
	}
	if err := validator.ValidateBundleContent(folder + "/manifests"); err != nil {
		return true, err
	}
	read, err := manifests.GetBundleFromDir(folder)
	if err != nil {
		return true, err
	}
	if read.CSV == nil {
		return true, fmt.Errorf("no ClusterServiceVersion in %s", folder)
	}
	// All but the deprecated one for community operators, and the one that pulls each image.
	validators := interfaces.Validators{
		validation.ClusterServiceVersionValidator, validation.CustomResourceDefinitionValidator, validation.BundleValidator,
		validation.OperatorHubV2Validator, validation.StandardCategoriesValidator, validation.StandardCapabilitiesValidator,
		validation.ObjectValidator, validation.OperatorGroupValidator, validation.AlphaDeprecatedAPIsValidator, validation.GoodPracticesValidator,
	}
	objects := read.ObjectsToValidate()
	for _, result := range validators.Validate(objects...) {
		for _, problem := range result.Errors {
			fmt.Println("error:", problem)
			failed = true
		}
		for _, problem := range result.Warnings {
			fmt.Println("warning:", problem)
		}
	}
	return failed, nil
}

func judgeCatalog(folder string) error {
	if _, err := os.Stat(folder); err != nil {
		return err
	}
	config, err := declcfg.LoadFS(context.Background(), os.DirFS(folder))
	if err != nil {
		return err
	}
	model, err := declcfg.ConvertToModel(*config)
	if err != nil {
		return err
	}
	for _, name := range config.Packages {
		for _, channel := range model[name.Name].Channels {
			head, err := channel.Head()
			if err != nil {
				return err
			}
			fmt.Printf("package %s, channel %s: %s %s\n", name.Name, channel.Name, head.Name, head.Version)
		}
	}
	return nil
}

func render(folder, image string) error {
	logrus.SetOutput(io.Discard)
	reference, err := template.New("image").Parse(image)
	if err != nil {
		return err
	}
	migrate, err := migrations.NewMigrations(migrations.AllMigrations)
	if err != nil {
		return err
	}
	// No reference is an image, so the registry is never asked.
	config, err := action.Render{Refs: []string{folder}, AllowedRefMask: action.RefBundleDir, ImageRefTemplate: reference, Migrations: migrate}.Run(context.Background())
	if err != nil {
		return err
	}
	return declcfg.WriteJSON(*config, os.Stdout)
}

func printDefinitions() error {
	for _, definition := range []*apiextensions.CustomResourceDefinition{
		crds.CatalogSource(), crds.ClusterServiceVersion(), crds.InstallPlan(), crds.OperatorCondition(), crds.OperatorGroup(), crds.Subscription(),
	} {
		text, err := yaml.Marshal(definition)
		if err != nil {
			return err
		}
		fmt.Printf("---\n%s", text)
	}
	return nil
}

func serve(folder, cached string) error {
	store, err := cache.New(cached)
	if err != nil {
		return err
	}
	defer store.Close()
	if err := cache.LoadOrRebuild(context.Background(), store, os.DirFS(folder)); err != nil {
		return err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	registry := grpc.NewServer()
	api.RegisterRegistryServer(registry, server.NewRegistryServer(store))
	health.RegisterHealthServer(registry, server.NewHealthServer())
	fmt.Println(listener.Addr())
	return registry.Serve(listener)
}
